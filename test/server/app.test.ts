/** What surrounds the generation: routes, states, request ids, CORS, records. */
import { describe, expect, it } from 'vitest';
import { now } from '../../src/engine/clock.js';
import type { EngineStats } from '../../src/engine/protocol.js';
import { word } from '../support/fake-text.js';
import { type Json, testApp } from '../support/server.js';

const get = (path: string, init: RequestInit = {}) => new Request(`http://test${path}`, init);

describe('routes', () => {
  it('list the model', async () => {
    const { app } = testApp();
    const list: Json = await (await app.fetch(get('/v1/models'))).json();
    const model = {
      id: 'fake-model',
      object: 'model',
      created: 1_700_000_000,
      owned_by: 'sluice',
      root: 'fake-model',
      parent: null,
      max_model_len: 256,
    };
    expect(list).toEqual({ object: 'list', data: [model] });
    expect(await (await app.fetch(get('/v1/models/fake-model'))).json()).toEqual(model);
    const other = await app.fetch(get('/v1/models/meta/other'));
    expect(other.status).toBe(404);
    expect(await other.json()).toMatchObject({ error: { code: 'model_not_found' } });
  });

  it('find a model whose name has a slash', async () => {
    const { app } = testApp({ model: { id: 'org/model' } });
    expect((await app.fetch(get('/v1/models/org/model'))).status).toBe(200);
    expect((await app.fetch(get('/v1/models/org%2Fmodel'))).status).toBe(200);
  });

  it('tell health and version', async () => {
    const { app } = testApp();
    const health = await app.fetch(get('/health'));
    expect(health.status).toBe(200);
    expect(await health.json()).toMatchObject({
      status: 'ok',
      model: 'fake-model',
      device: 'cpu',
      blocks_total: 64,
      preemptions: 0,
    });
    expect(await (await app.fetch(get('/version'))).json()).toEqual({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    });
    expect((await app.fetch(get('/'))).status).toBe(200);
    expect((await app.fetch(get('/health', { method: 'HEAD' }))).status).toBe(200);
  });

  it('refuse other paths with 404 and other methods with 405, in the shape of errors', async () => {
    const { app } = testApp();
    const missing = await app.fetch(get('/v2/nothing'));
    expect(missing.status).toBe(404);
    expect(await missing.json()).toMatchObject({ error: { code: 'not_found', type: 'invalid_request_error' } });
    for (const [method, path, allow] of [
      ['GET', '/v1/completions', 'POST, OPTIONS'],
      ['DELETE', '/v1/chat/completions', 'POST, OPTIONS'],
      ['POST', '/health', 'GET, HEAD, OPTIONS'],
      ['PUT', '/v1/models', 'GET, HEAD, OPTIONS'],
      ['POST', '/v1/models/fake-model', 'GET, HEAD, OPTIONS'],
    ] as const) {
      const response = await app.fetch(get(path, { method }));
      expect([path, response.status, response.headers.get('allow')]).toEqual([path, 405, allow]);
      expect(await response.json()).toMatchObject({ error: { code: 'method_not_allowed' } });
    }
  });
});

describe('while the model is loading (case 76, vllm#36451)', () => {
  it('health and inference say so with 503 and Retry-After', async () => {
    const { app, engine, completion, chat } = testApp();
    engine.state = 'loading';
    engine.info = undefined;
    for (const response of [
      await app.fetch(get('/health')),
      await app.fetch(get('/v1/models')),
      await completion({}),
      await chat({ stream: true }),
    ]) {
      expect(response.status).toBe(503);
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    }
    expect(await (await completion({})).json()).toMatchObject({
      error: { type: 'service_unavailable', code: 'model_loading' },
    });
    for (const path of ['/health', '/ready']) {
      const response = await app.fetch(get(path));
      expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5']);
      expect(await response.json()).toEqual({
        status: 'loading',
        last_step_age: null,
        step_overdue: 0,
        progress_timeout: 60,
      });
    }
  });
});

describe('an engine that makes no progress (case 76, omlx#1884)', () => {
  it('is stalled once a step has been due for too long, and well again after it', async () => {
    const { app, engine } = testApp({ config: { progressTimeout: 5 } });
    const status = async (path: string) => {
      const response = await app.fetch(get(path));
      return [response.status, await response.json()] as const;
    };
    engine.stepDueSince = now() - 4;
    for (const path of ['/health', '/ready']) expect((await status(path))[0]).toBe(200);
    engine.stepDueSince = now() - 6;
    engine.stats = { time: now() - 30 } as EngineStats;
    for (const path of ['/health', '/ready']) {
      const [code, body] = await status(path);
      expect([code, body.status, body.progress_timeout]).toEqual([503, 'stalled', 5]);
      expect(body.step_overdue).toBeCloseTo(6, 1);
      expect(body.last_step_age).toBeCloseTo(30, 1);
    }
    engine.stepDueSince = undefined;
    const [code, body] = await status('/ready');
    expect([code, body.status, body.step_overdue]).toEqual([200, 'ok', 0]);
    expect(body.last_step_age).toBeCloseTo(30, 1);
  });
});

describe('while draining and after a failure', () => {
  it.each(['draining', 'failed', 'closed'] as const)('%s is a 503, too', async (state) => {
    const { app, engine, completion } = testApp();
    engine.state = state;
    const health = await app.fetch(get('/health'));
    expect([health.status, await health.json()]).toEqual([503, expect.objectContaining({ status: state })]);
    const response = await completion({});
    expect(response.status).toBe(503);
    expect(response.headers.get('retry-after')).toBe('5');
    expect(engine.requests).toEqual([]);
  });
});

describe('request ids', () => {
  it('are taken from the header, else from the body, else made', async () => {
    const { post } = testApp();
    const body = { prompt: 'Hello', request_id: 'from-body' };
    const header = await post('/v1/completions', body, { headers: { 'X-Request-Id': 'from-header' } });
    expect(header.headers.get('x-request-id')).toBe('from-header');
    expect(((await header.json()) as Json).id).toBe('cmpl-from-header');
    const inBody = await post('/v1/completions', body);
    expect(inBody.headers.get('x-request-id')).toBe('from-body');
    expect(((await inBody.json()) as Json).id).toBe('cmpl-from-body');
    const made = await post('/v1/completions', { prompt: 'Hello' });
    expect(made.headers.get('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
    expect(((await made.json()) as Json).id).toBe(`cmpl-${made.headers.get('x-request-id')}`);
  });

  it('that do not fit a header or a log are replaced', async () => {
    const { post } = testApp();
    for (const id of ['x'.repeat(129), 'a b', 'é']) {
      const response = await post('/v1/completions', { prompt: 'Hello' }, { headers: { 'X-Request-Id': id } });
      expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
    }
    const response = await post('/v1/completions', { prompt: 'Hello', request_id: 'line\nbreak' });
    expect(response.status).toBe(200);
    expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
  });

  it('are on errors, too', async () => {
    const { app } = testApp();
    const response = await app.fetch(get('/nothing', { headers: { 'X-Request-Id': 'me' } }));
    expect(response.headers.get('x-request-id')).toBe('me');
  });
});

describe('CORS (case 73, vllm#4862, llama.cpp#6544)', () => {
  it('answers a preflight with 204 and lets Authorization through', async () => {
    const { app } = testApp();
    const response = await app.fetch(
      get('/v1/chat/completions', {
        method: 'OPTIONS',
        headers: {
          Origin: 'http://page.test',
          'Access-Control-Request-Method': 'POST',
          'Access-Control-Request-Headers': 'authorization,content-type',
        },
      }),
    );
    expect(response.status).toBe(204);
    expect(await response.text()).toBe('');
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
    expect(response.headers.get('access-control-allow-methods')).toContain('POST');
    expect(response.headers.get('access-control-allow-headers')).toBe('authorization,content-type');
  });

  it('allows every origin on answers, errors and streams', async () => {
    const { app, completion } = testApp({ reply: () => [word('one')] });
    for (const response of [
      await completion({}),
      await completion({ stream: true }),
      await completion({ temperature: -1 }),
      await app.fetch(get('/nothing')),
      await app.fetch(get('/health')),
    ]) {
      expect(response.headers.get('access-control-allow-origin')).toBe('*');
      await response.text();
    }
  });
});

describe('origins', () => {
  it('can be limited to some', async () => {
    const { app } = testApp({ config: { allowedOrigins: ['https://a.test', 'https://b.test'] } });
    const allowed = async (origin: string | undefined, method = 'GET') => {
      const headers: Record<string, string> = origin === undefined ? {} : { Origin: origin };
      const response = await app.fetch(get('/health', { method, headers }));
      expect(response.headers.get('vary')).toContain('Origin');
      return response.headers.get('access-control-allow-origin');
    };
    expect(await allowed('https://b.test')).toBe('https://b.test');
    expect(await allowed('https://b.test', 'OPTIONS')).toBe('https://b.test');
    for (const origin of ['https://c.test', 'https://a.test.evil', 'null', '*', undefined]) {
      expect(await allowed(origin)).toBeNull();
    }
  });
});

describe('records', () => {
  it('describe a request in numbers', async () => {
    const { completion, records } = testApp({ reply: () => [word('one'), word(' two')], cachedTokens: 1 });
    const response = await completion({ prompt: 'Hello world', stream: true });
    await response.text();
    expect(records).toHaveLength(1);
    expect(records[0]).toEqual({
      id: response.headers.get('x-request-id'),
      method: 'POST',
      path: '/v1/completions',
      handler: '/v1/completions',
      start: expect.any(Number),
      status: 200,
      streamed: true,
      promptTokens: 2,
      completionTokens: 3,
      cachedTokens: 1,
      firstToken: expect.any(Number),
      lastToken: expect.any(Number),
      timePerToken: (records[0]!.lastToken! - records[0]!.firstToken!) / 2,
      finish: 'stop',
      duration: expect.any(Number),
    });
    expect(records[0]!.lastToken).toBeGreaterThanOrEqual(records[0]!.firstToken!);
    expect(records[0]!.duration).toBeGreaterThanOrEqual(records[0]!.lastToken!);
    await completion({ temperature: -1 });
    expect(records[1]).toMatchObject({ status: 400, streamed: false, error: expect.stringContaining('temperature') });
  });
});

describe('prompts and answers', () => {
  const secret = { prompt: ['Hello world', 'Hello'], n: 2, max_tokens: 2 };
  const reply = () => [word('one'), word(' two')];

  it.each([true, false])('are in no record (stream: %s)', async (stream) => {
    const { completion, chat, records } = testApp({ reply });
    await (await completion({ ...secret, stream })).text();
    await (await chat({ messages: [{ role: 'user', content: 'Hello world' }], stream, max_tokens: 2 })).text();
    expect(records).toHaveLength(2);
    for (const record of records) expect(JSON.stringify(record)).not.toMatch(/Hello|world|one|two/);
  });

  it.each([true, false])('are recorded where that is asked for (stream: %s)', async (stream) => {
    const { completion, records } = testApp({ reply, config: { logContent: true } });
    await (await completion({ ...secret, stream })).text();
    const answers = new Array(4).fill('one two');
    expect(records[0]!.content).toEqual({ prompts: ['Hello world', 'Hello'], answers });
  });
});

describe('seeds', () => {
  it("are the caller's, or new for every request", async () => {
    const { completion, engine } = testApp();
    await completion({ seed: 7 });
    await completion({});
    await completion({});
    const [given, one, two] = engine.requests.map((request) => request.sampling.seed);
    expect(given).toBe(7);
    expect(one).not.toBe(two);
  });
});

describe('sampling', () => {
  it("starts from the model's own defaults", async () => {
    const { completion, engine } = testApp({
      model: { defaults: { temperature: 0.6, topK: 20, topP: 0.95, minP: 0.05, repetitionPenalty: 1.1 } },
    });
    await completion({});
    await completion({ temperature: 0, top_k: 0, top_p: 1, min_p: 0, repetition_penalty: 1 });
    expect(engine.requests[0]!.sampling).toMatchObject({
      temperature: 0.6,
      topK: 20,
      topP: 0.95,
      minP: 0.05,
      repetitionPenalty: 1.1,
    });
    expect(engine.requests[1]!.sampling).toMatchObject({
      temperature: 0,
      topK: 0,
      topP: 1,
      minP: 0,
      repetitionPenalty: 1,
    });
  });

  it('hands everything to the engine', async () => {
    const { completion, engine } = testApp();
    await completion({
      presence_penalty: 0.5,
      frequency_penalty: -0.5,
      logit_bias: { 65: 3, 66: -100 },
      allowed_token_ids: [1, 2],
      bad_words: ['one'],
      min_tokens: 2,
      priority: -3,
      user: 'me',
      cache_salt: 'salt',
    });
    expect(engine.requests[0]).toMatchObject({
      minTokens: 2,
      priority: -3,
      user: 'me',
      cacheSalt: 'salt',
      sampling: {
        presencePenalty: 0.5,
        frequencyPenalty: -0.5,
        logitBias: [
          [65, 3],
          [66, -100],
        ],
        allowedTokenIds: [1, 2],
        badWords: [[word('one')], [word(' one')]],
      },
    });
  });
});
