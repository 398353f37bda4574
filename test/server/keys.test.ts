/** API keys: who is let in, what everybody may see, and the limits of a key. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ApiKey, type KeyLimits } from '../../src/server/keys/api-key.js';
import { plainKeys, readKeyFile } from '../../src/server/keys/key-file.js';
import { hashKey, KeyRing } from '../../src/server/keys/key-ring.js';
import { TokenBucket } from '../../src/server/keys/token-bucket.js';
import { word } from '../support/fake-text.js';
import { type Json, type TestApp, type TestSetup, testApp, until } from '../support/server.js';

const withKeys = (setup: TestSetup = {}): TestApp =>
  testApp({ ...setup, keys: new KeyRing(plainKeys(['first-key', 'second-key'])) });

async function completionAs(app: TestApp, authorization: string | undefined, body: object = {}): Promise<Response> {
  const headers: Record<string, string> = authorization === undefined ? {} : { Authorization: authorization };
  return app.post('/v1/completions', { prompt: 'Hello', ...body }, { headers });
}

describe('keys (case 74, llama.cpp#24825)', () => {
  it('let in with any of them, the scheme in any case', async () => {
    const app = withKeys();
    for (const header of ['Bearer first-key', 'Bearer second-key', 'bearer second-key', 'BEARER  first-key']) {
      expect([header, (await completionAs(app, header)).status]).toEqual([header, 200]);
    }
  });

  it.each([
    undefined,
    '',
    'Bearer',
    'Bearer ',
    'Bearer first-ke',
    'Bearer first-keyy',
    'Bearer first-key second-key',
    'Bearer first-key, Bearer first-key',
    'bearer nothing',
    'Basic first-key',
    'first-key',
    'Bearer \u00e9',
    `Bearer ${'x'.repeat(10_000)}`,
  ])('refuse %j with 401', async (header) => {
    const app = withKeys();
    const response = await completionAs(app, header);
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toBe('Bearer');
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
    const { error }: Json = await response.json();
    expect(error).toMatchObject({ type: 'invalid_request_error', code: 'invalid_api_key' });
    expect(app.engine.requests).toEqual([]);
  });

  it('refuse a header that comes twice', async () => {
    const app = withKeys();
    const headers = new Headers();
    headers.append('Authorization', 'Bearer first-key');
    headers.append('Authorization', 'Bearer first-key');
    expect((await app.post('/v1/completions', { prompt: 'Hello' }, { headers })).status).toBe(401);
  });

  it('guard everything but what says that the server is there; preflights pass (case 73)', async () => {
    const { app } = withKeys();
    const status = async (method: string, path: string) =>
      (await app.fetch(new Request(`http://test${path}`, { method }))).status;
    for (const path of ['/', '/health', '/version']) expect([path, await status('GET', path)]).toEqual([path, 200]);
    for (const path of [
      '/v1/models',
      '/v1/models/fake-model',
      '/nothing',
      '/v1/streams/x',
      '/V1/models',
      '//v1/models',
    ])
      expect([path, await status('GET', path)]).toEqual([path, 401]);
    for (const path of ['/v1/chat/completions', '/v1/requests/x/cancel', '/tokenize']) {
      expect([path, await status('POST', path)]).toEqual([path, 401]);
      expect([path, await status('OPTIONS', path)]).toEqual([path, 204]);
    }
  });

  it('separate owners: only its own key cancels a request', async () => {
    const app = withKeys({ beforeStep: () => new Promise<void>(() => {}) });
    const pending = app.post(
      '/v1/completions',
      { prompt: 'Hello' },
      { headers: { Authorization: 'Bearer first-key', 'X-Request-Id': 'mine' } },
    );
    await until(() => app.engine.running === 1, 'it runs');
    const cancelAs = async (key: string) =>
      (await app.post('/v1/requests/mine/cancel', '', { headers: { Authorization: `Bearer ${key}` } })).status;
    expect(await cancelAs('second-key')).toBe(404);
    expect(await cancelAs('first-key')).toBe(200);
    expect((await pending).status).toBe(200);
  });

  it('are the account of fair sharing, and named in the record', async () => {
    const app = withKeys();
    await completionAs(app, 'Bearer second-key', { user: 'somebody' });
    expect(app.engine.requests[0]!.user).toBe('key-2');
    expect(app.records[0]).toMatchObject({ key: 'key-2', status: 200 });
  });
});

describe('limits of a key', () => {
  const limited = (limits: KeyLimits, setup: TestSetup = {}): TestApp =>
    testApp({ ...setup, keys: new KeyRing([{ name: 'team', hash: hashKey('k'), ...limits }]) });
  const ask = (app: TestApp, body: object = {}) => completionAs(app, 'Bearer k', body);

  it('on requests: 429 with Retry-After, and headers that count down', async () => {
    const app = limited({ requestsPerMinute: 2 });
    const first = await ask(app);
    expect(first.headers.get('x-ratelimit-limit-requests')).toBe('2');
    expect(first.headers.get('x-ratelimit-remaining-requests')).toBe('1');
    expect((await ask(app)).status).toBe(200);
    const third = await ask(app);
    expect(third.status).toBe(429);
    const wait = Number(third.headers.get('retry-after'));
    expect(wait).toBeGreaterThan(0);
    expect(wait).toBeLessThanOrEqual(30);
    expect(await third.json()).toMatchObject({ error: { type: 'rate_limit_error', code: 'rate_limit_exceeded' } });
    expect(app.engine.requests).toHaveLength(2);
  });

  it('on tokens: counted at the end of an answer, streamed or whole', async () => {
    for (const stream of [false, true]) {
      const app = limited({ tokensPerMinute: 5 }, { reply: () => Array(50).fill(word('one')) });
      const response = await ask(app, { stream, max_tokens: 9 });
      await response.text();
      const next = await ask(app);
      expect(next.status).toBe(429);
      // 1 + 9 tokens of 5: 5 too many, which come back in a minute.
      expect(next.headers.get('retry-after')).toMatch(/^(59|60|61)$/);
    }
  });

  it('on requests at once', async () => {
    const app = limited({ maxConcurrency: 2 }, { beforeStep: () => new Promise<void>(() => {}) });
    const running = ['a', 'b'].map((id) =>
      app.post(
        '/v1/completions',
        { prompt: 'Hello', stream: id === 'a' },
        { headers: { Authorization: 'Bearer k', 'X-Request-Id': id } },
      ),
    );
    await until(() => app.engine.running === 2, 'both run');
    const refused = await ask(app);
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ error: { code: 'concurrency_limit_exceeded' } });
    for (const id of ['a', 'b']) {
      await app.post(`/v1/requests/${id}/cancel`, '', { headers: { Authorization: 'Bearer k' } });
    }
    for (const response of await Promise.all(running)) await response.text();
    void ask(app);
    await until(() => app.engine.running === 1, 'there is room again');
  });

  it('give their place back whatever a request ends with', async () => {
    const app = limited({ maxConcurrency: 1 });
    for (const body of [{ temperature: -1 }, { model: 'other' }, {}, { stream: true }, { prompt: '' }]) {
      const response = await ask(app, body);
      await response.text();
      expect(response.status).not.toBe(429);
    }
  });
});

describe('TokenBucket', () => {
  it('fills at its rate, to its size and no more', () => {
    const bucket = new TokenBucket(60, 100);
    expect(bucket.left(1000)).toBe(60);
    bucket.take(60, 1000);
    expect(bucket.wait(1, 1000)).toBe(1);
    expect(bucket.wait(1, 1000.5)).toBeCloseTo(0.5);
    expect(bucket.wait(1, 1001)).toBe(0);
    bucket.take(31, 1001);
    expect(bucket.left(1001)).toBe(-30);
    expect(bucket.wait(1, 1001)).toBeCloseTo(31);
  });

  it('lets as many requests through as it says, over any time', () => {
    let now = 0;
    const key = new ApiKey({ name: 'k', hash: hashKey('k'), requestsPerMinute: 30 }, () => now);
    let served = 0;
    for (now = 0; now < 600; now += 0.25) {
      try {
        key.begin().end(0);
        served++;
      } catch {}
    }
    expect(served).toBe(30 + 299);
  });
});

describe('a file of keys', () => {
  const path = join(mkdtempSync(join(tmpdir(), 'sluice-keys-')), 'keys.json');
  const read = (content: unknown) => {
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
    return readKeyFile(path);
  };

  it('has keys or their hashes, with limits', () => {
    const specs = read({
      keys: [
        { name: 'a', key: 'secret', requests_per_minute: 60, tokens_per_minute: 1000, max_concurrency: 4 },
        { name: 'b', sha256: hashKey('other').toString('hex') },
      ],
    });
    expect(specs[0]).toMatchObject({ name: 'a', requestsPerMinute: 60, tokensPerMinute: 1000, maxConcurrency: 4 });
    const ring = new KeyRing(specs);
    expect(ring.find('Bearer secret')?.name).toBe('a');
    expect(ring.find('Bearer other')?.name).toBe('b');
  });

  it.each([
    ['no JSON: secret', /is no JSON/],
    [{}, /keys/],
    [{ keys: [] }, /keys/],
    [{ keys: [{ name: 'a' }] }, /keys\.0: must have either/],
    [{ keys: [{ name: 'a', key: 'secret', sha256: 'x' }] }, /sha256: must be 64/],
    [{ keys: [{ name: 'a', key: 'secret', request_per_minute: 1 }] }, /request_per_minute/],
    [{ keys: [{ name: 'a', key: 'secret', requests_per_minute: 0 }] }, /requests_per_minute/],
    [{ keys: [{ name: 'a', key: 'has space secret' }] }, /must not be empty or have spaces/],
    [
      {
        keys: [
          { name: 'a', key: 'secret' },
          { name: 'a', key: 'secret2' },
        ],
      },
      /twice/,
    ],
  ])('%j is refused without telling a key', (content, message) => {
    expect(() => read(content)).toThrow(message);
    try {
      read(content);
    } catch (error) {
      expect((error as Error).message).not.toContain('secret');
    }
  });

  it('that is missing is named', () => {
    expect(() => readKeyFile('/nowhere/keys.json')).toThrow('/nowhere/keys.json');
    expect(() => plainKeys([''])).toThrow('--api-key');
  });
});
