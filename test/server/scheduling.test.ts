/** What of scheduling shows over HTTP: refusals of a full queue, deadlines, cached tokens, and the cache's reset. */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openModel } from '../../src/cli/load.js';
import type { EngineConfig } from '../../src/engine/protocol.js';
import { startEngine, type WorkerEngineClient } from '../../src/engine/worker-client.js';
import { createApp } from '../../src/server/app.js';
import { defaultServerConfig } from '../../src/server/config.js';
import { type Json, streamed, testApp } from '../support/server.js';

const config: EngineConfig = {
  model: fileURLToPath(new URL('../fixtures/models/tiny-llama', import.meta.url)),
  device: 'cpu',
  precision: 'fp32',
  threads: 1,
  maxNumSeqs: 2,
  maxNumBatchedTokens: 64,
  maxModelLen: undefined,
  kvCacheMemory: 2 ** 22,
  blockSize: 8,
  maxWaiting: 1,
};

let engine: WorkerEngineClient;
let app: ReturnType<typeof createApp>;
beforeAll(async () => {
  const opened = await openModel(config, 'tiny');
  engine = startEngine(config);
  app = createApp({ engine, ...opened, config: defaultServerConfig });
  await engine.ready();
});
afterAll(() => engine.close());

function post(path: string, body: object): Promise<Response> {
  const headers = { 'Content-Type': 'application/json' };
  return Promise.resolve(app.request(path, { method: 'POST', headers, body: JSON.stringify(body) }));
}

describe('cached tokens (case 83, imp#1984)', () => {
  const chat = { messages: [{ role: 'user', content: 'Twelve herons stood in the shallow water and waited.' }] };
  const completion = { prompt: 'The river carries leaves, twigs and now and then a letter.' };
  const usage = { stream: true, stream_options: { include_usage: true } };
  const cachedOf = (body: Json): unknown => body.usage.prompt_tokens_details.cached_tokens;

  it.each([
    ['/v1/completions', completion],
    ['/v1/chat/completions', chat],
  ])('of %s are told cold and warm, whole and streamed', async (path, request) => {
    const whole = async () => (await post(path, { ...request, max_tokens: 2 })).json();
    const inStream = async () => (await streamed(await post(path, { ...request, max_tokens: 2, ...usage }))).at(-1);
    const cold: Json = await whole();
    expect(cachedOf(cold)).toBe(0);
    const warm = Math.floor((cold.usage.prompt_tokens - 1) / 8) * 8;
    expect(warm).toBeGreaterThan(0);
    expect(cachedOf(await whole())).toBe(warm);
    expect(cachedOf(await inStream())).toBe(warm);
    const salted: Json = await (await post(path, { ...request, max_tokens: 2, cache_salt: 'tenant' })).json();
    expect(cachedOf(salted)).toBe(0);
    const reset = await post('/v1/cache/reset', {});
    expect([reset.status, await reset.json()]).toEqual([200, { object: 'cache.reset' }]);
    expect(cachedOf(await inStream())).toBe(0);
    expect(cachedOf(await inStream())).toBe(warm);
  });
});

describe('a full queue', () => {
  it('answers 429 with a time for the next try, and 503 to who has waited too long (case 72, atlas#482)', async () => {
    const long = { prompt: 'Once', max_tokens: 150, ignore_eos: true };
    const running = [post('/v1/completions', long), post('/v1/completions', long)];
    const waiting = post('/v1/completions', { ...long, timeout: 0.01 });
    const refused = await post('/v1/completions', long);
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThanOrEqual(1);
    expect(await refused.json()).toMatchObject({ error: { type: 'rate_limit_error', code: 'queue_full' } });
    const overdue = await waiting;
    expect(overdue.status).toBe(503);
    expect(await overdue.json()).toMatchObject({ error: { code: 'timeout', type: 'service_unavailable' } });
    for (const response of await Promise.all(running)) {
      const body: Json = await response.json();
      expect([response.status, body.choices[0].finish_reason]).toEqual([200, 'length']);
    }
  });
});

describe('a refusal of the engine', () => {
  it.each([
    [0.2, '1'],
    [12.3, '13'],
    [undefined, '1'],
  ])('with %s s until the next try says so in whole seconds', async (retryAfter, header) => {
    const failAt = { step: 0, code: 'queue_full' as const, ...(retryAfter !== undefined && { retryAfter }) };
    for (const asOutput of [true, false]) {
      const response = await testApp({ failAt: { ...failAt, asOutput } }).completion({});
      expect([response.status, response.headers.get('Retry-After')]).toEqual([429, header]);
    }
  });
});

it('a request’s timeout and user reach the engine', async () => {
  const test = testApp();
  await test.completion({ timeout: 2.5, user: 'someone', priority: -1 });
  expect(test.engine.requests[0]).toMatchObject({ queueTimeout: 2.5, user: 'someone', priority: -1 });
  const refused = await test.completion({ timeout: 0 });
  expect([refused.status, ((await refused.json()) as Json).error.param]).toEqual([400, 'timeout']);
});

it('the cache is not reset before the model is there', async () => {
  const test = testApp();
  test.engine.state = 'loading';
  expect((await test.post('/v1/cache/reset', '')).status).toBe(503);
  test.engine.state = 'ready';
  expect((await test.post('/v1/cache/reset', '')).status).toBe(200);
  expect(test.engine.resets).toBe(1);
});
