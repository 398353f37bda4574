import { createServer } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { exchange } from '../../src/loadgen/exchange.js';
import { makeAgent, makeTarget } from '../../src/loadgen/target.js';
import {
  completionChunk,
  DONE,
  FRAMINGS,
  type MockAnswer,
  type MockScript,
  type MockServer,
  startMock,
} from '../support/mock-openai.js';

const { frame } = FRAMINGS[0]!;
const token = frame(completionChunk('a', { usage: 1 }));
const last = frame(completionChunk('b', { usage: 2, finish: 'stop' }));
const done = frame(DONE);
const json = { 'content-type': 'application/json' };
const answer = (end: MockAnswer['end'], ...bytes: string[]): MockAnswer => ({
  steps: bytes.map((piece) => ({ delay: 2, bytes: piece })),
  ...(end === undefined ? {} : { end }),
});

let mock: MockServer;
afterEach(() => mock?.close());

async function send(script: MockScript, options: { timeout?: number; signal?: AbortSignal; times?: number } = {}) {
  mock = await startMock(script);
  const target = makeTarget(mock.url, 'secret', ['X-Tenant: blue']);
  const agent = makeAgent(target);
  const request = { path: '/completions', body: Buffer.from('{"prompt":[1],"n":"é"}') };
  const { timeout = 5000, times = 1, ...rest } = options;
  const results = [];
  for (let count = 0; count < times; count += 1) {
    results.push(await exchange(target, request, { agent, timeout, ...rest }));
  }
  agent.destroy();
  return results;
}

describe('exchange', () => {
  it.each<[string, MockAnswer | 'drop', string]>([
    ['a whole answer', answer('clean', token, last, done), 'completed'],
    ['a whole answer without [DONE]', answer('clean', token, last), 'completed'],
    ['a connection reset after [DONE]', answer('reset', token, last, done), 'completed'],
    [
      'an error event (case 79, guidellm#737)',
      answer('clean', token, frame('{"error":{"message":"oom"}}'), done),
      'error_event',
    ],
    ['a clean end in mid-stream', answer('clean', token), 'cut'],
    ['a reset in mid-stream', answer('reset', token), 'cut'],
    ['a reset within an event', answer('reset', token, last.slice(0, 20)), 'cut'],
    ['a reset after the headers', answer('reset'), 'cut'],
    ['a dropped connection', 'drop', 'connection'],
    ['bytes that are no JSON', answer('clean', token, 'data: <html>\n\n', done), 'malformed'],
    ['JSON instead of a stream', { headers: json, steps: [{ bytes: '{"choices":[]}' }] }, 'malformed'],
    ['a full queue', { status: 429, headers: json, steps: [{ bytes: '{"error":{"message":"full"}}' }] }, 'http_429'],
    ['a draining server', { status: 503, headers: json, steps: [{ bytes: 'draining' }] }, 'http_503'],
    ['a redirect', { status: 307, headers: { location: '/elsewhere' }, steps: [] }, 'http_307'],
  ])('%s', async (_name, script, outcome) => {
    const [result] = await send(() => script);
    expect(result!.failure?.kind ?? result!.outcome).toBe(outcome);
  });

  it('keeps what the server says of an error', async () => {
    const [shaped] = await send(() => ({
      status: 400,
      headers: json,
      steps: [{ bytes: '{"error":{"message":"bad n"}}' }],
    }));
    expect(shaped!.failure).toEqual({ kind: 'http_400', message: 'bad n' });
    await mock.close();
    const [plain] = await send(() => ({
      status: 502,
      headers: { 'content-type': 'text/plain' },
      steps: [{ bytes: 'Bad' }],
    }));
    expect(plain!.failure).toEqual({ kind: 'http_502', message: 'Bad' });
  });

  it('times a request out that does not end, and closes its connection', async () => {
    const [result] = await send(() => answer('hang', token), { timeout: 60 });
    expect(result!.failure?.kind).toBe('timeout');
    expect(result!.endAt - result!.sentAt).toBeGreaterThanOrEqual(59);
    await expect.poll(() => mock.requests[0]!.aborted).toBe(true);
  });

  it('does not wait for a server that leaves the body open after [DONE]', async () => {
    const [result] = await send(() => answer('hang', token, last, done), { timeout: 20_000 });
    expect(result!.outcome).toBe('completed');
  });

  it('gives up on a signal, and closes the connection', async () => {
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 30);
    const [result] = await send(() => answer('hang', token), { signal: stop.signal });
    expect(result!.outcome).toBe('cancelled');
    await expect.poll(() => mock.requests[0]!.aborted).toBe(true);
  });

  it('reports a port where nothing listens', async () => {
    const blocker = createServer();
    await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve));
    const { port } = blocker.address() as { port: number };
    await new Promise((resolve) => blocker.close(resolve));
    const target = makeTarget(`http://127.0.0.1:${port}`, undefined);
    const request = { path: '/completions', body: Buffer.from('{}') };
    const result = await exchange(target, request, { agent: makeAgent(target), timeout: 1000 });
    expect(result.failure).toMatchObject({ kind: 'connection', message: expect.stringContaining('ECONNREFUSED') });
  });

  it('sends the body, the key and the headers, and reuses the connection', async () => {
    const results = await send(() => answer('clean', token, last, done), { times: 3 });
    expect(mock.requests.map(({ path, body }) => ({ path, body }))).toEqual(
      new Array(3).fill({ path: '/v1/completions', body: { prompt: [1], n: 'é' } }),
    );
    expect(mock.requests[0]!.headers).toMatchObject({ authorization: 'Bearer secret', 'x-tenant': 'blue' });
    expect(mock.connections()).toBe(1);
    expect(results[0]!.connect).toBeGreaterThan(0);
    expect(results.slice(1).map(({ connect }) => connect)).toEqual([0, 0]);
  });

  it('closes an idle connection before the server would (case 75, node#20256)', async () => {
    mock = await startMock(() => answer('clean', token, last, done));
    const target = makeTarget(mock.url, undefined);
    const agent = makeAgent(target);
    const request = { path: '/completions', body: Buffer.from('{}') };
    await exchange(target, request, { agent, timeout: 5000 });
    expect(Object.keys(agent.freeSockets)).toHaveLength(1);
    await expect.poll(() => Object.keys(agent.freeSockets), { timeout: 4000 }).toHaveLength(0);
  });

  it('leaves a slow answer on a reused connection alone', async () => {
    mock = await startMock((_request, index) => ({
      steps: [{ delay: index === 0 ? 0 : 2500, bytes: token + last + done }],
    }));
    const target = makeTarget(mock.url, undefined);
    const agent = makeAgent(target);
    const request = { path: '/completions', body: Buffer.from('{}') };
    await exchange(target, request, { agent, timeout: 5000 });
    const second = await exchange(target, request, { agent, timeout: 5000 });
    expect(second.outcome).toBe('completed');
    expect(mock.connections()).toBe(1);
    agent.destroy();
  });

  it('takes the time of an arrival before anything of it is parsed', async () => {
    // 2000 events in a few packets: parsing takes a while, in which the clock must not move.
    const many = Array.from({ length: 2000 }, (_, index) => frame(completionChunk(' x', { usage: index + 1 }))).join(
      '',
    );
    const [result] = await send(() => ({ steps: [{ delay: 5, bytes: many + last + done }] }));
    const times = new Set(result!.timeline!.chunks.map(({ at }) => at));
    expect(result!.timeline!.chunks).toHaveLength(2000);
    expect(times.size).toBeLessThan(40);
    await sleep(0);
    expect(performance.now()).toBeGreaterThan(Math.max(...times));
  });
});
