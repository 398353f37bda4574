/** What may wait, how long, and what is said to those that may not. */
import { describe, expect, test } from 'vitest';
import type { Command, GenerationRequest } from '../../../src/engine/protocol.js';
import { queueFull } from '../../../src/engine/scheduler/queue-limits.js';
import { Throughput } from '../../../src/engine/throughput.js';
import { requestOf, runRequests, runScript } from '../../support/engine.js';
import { FakeRunner, fakeGreedy } from '../../support/fake-runner.js';

const LIMITS = { maxNumSeqs: 2, maxNumBatchedTokens: 64, maxModelLen: 100 };
const runnerOf = () => new FakeRunner({ blockSize: 4, numBlocks: 64 });
const generate = (request: GenerationRequest): Command => ({ kind: 'generate', request });

describe('a bound on the queue', () => {
  test('counts only those for which there is no slot', () => {
    const limits = { maxWaiting: 3 };
    expect(queueFull(10, { requests: 5, tokens: 50, freeSlots: 3 }, limits)).toBeUndefined();
    expect(queueFull(10, { requests: 6, tokens: 60, freeSlots: 3 }, limits)).toContain('3 requests wait');
    expect(queueFull(10, { requests: 0, tokens: 0, freeSlots: 1 }, { maxWaiting: 0 })).toBeUndefined();
    expect(queueFull(10, { requests: 1, tokens: 10, freeSlots: 1 }, { maxWaiting: 0 })).toContain('0 may');
    expect(queueFull(10, { requests: 0, tokens: 0, freeSlots: 0 }, { maxWaiting: 0 })).toContain('0 may');
  });

  test('by tokens lets a single prompt wait, however long', () => {
    const limits = { maxWaitingTokens: 100 };
    expect(queueFull(500, { requests: 0, tokens: 0, freeSlots: 0 }, limits)).toBeUndefined();
    expect(queueFull(50, { requests: 1, tokens: 50, freeSlots: 0 }, limits)).toBeUndefined();
    expect(queueFull(51, { requests: 1, tokens: 50, freeSlots: 0 }, limits)).toContain('50 tokens wait');
  });

  test('refuses at once what is over it, and serves the rest', async () => {
    const requests = Array.from({ length: 8 }, (_, id) => requestOf({ id, maxTokens: 20 }));
    const { records, stats } = await runRequests(runnerOf(), { ...LIMITS, maxWaiting: 3 }, requests);
    for (const { id } of requests) {
      const { last, tokens, finishes } = records.get(`${id}/0`)!;
      expect(finishes).toBe(1);
      if (id < 5) expect([last.finish, tokens]).toEqual(['length', fakeGreedy([1, 2, 3], 20)]);
      else expect([last.finish, last.error?.code, tokens]).toEqual(['error', 'queue_full', []]);
    }
    expect(stats[0]).toMatchObject({ running: 2, waiting: 3 });
  });

  test('is not filled by one user against another: the last of whoever has most waiting makes way', async () => {
    const flood = Array.from({ length: 6 }, (_, id) => requestOf({ id, user: 'flood', maxTokens: 30 }));
    const others = [6, 7, 8].map((id) => requestOf({ id, user: 'other', maxTokens: 4 }));
    const { records } = await runScript(
      runnerOf(),
      { ...LIMITS, maxWaiting: 4 },
      new Map([
        [0, flood.map(generate)],
        [6, others.map(generate)],
      ]),
    );
    const ends = [...flood, ...others].map(({ id }) => records.get(`${id}/0`)!.last.error?.code ?? 'served');
    // Four of the flood wait; two of them make way for two of the other, whose third would have as many as are left.
    expect(ends).toEqual([
      'served',
      'served',
      'served',
      'served',
      'queue_full',
      'queue_full',
      'served',
      'served',
      'queue_full',
    ]);
  });

  test('makes way for a higher priority, never for a lower', async () => {
    const low = Array.from({ length: 4 }, (_, id) => requestOf({ id, priority: 1, maxTokens: 30 }));
    const lower = requestOf({ id: 4, priority: 2 });
    const higher = requestOf({ id: 5, priority: 0, maxTokens: 4 });
    const { records } = await runScript(
      runnerOf(),
      { ...LIMITS, maxWaiting: 2 },
      new Map([
        [0, low.map(generate)],
        [6, [lower, higher].map(generate)],
      ]),
    );
    const ends = [0, 1, 2, 3, 4, 5].map((id) => records.get(`${id}/0`)!.last.error?.code ?? 'served');
    expect(ends).toEqual(['served', 'served', 'served', 'queue_full', 'queue_full', 'served']);
  });

  test('tells when to try again, from how fast requests were started', async () => {
    const requests = Array.from({ length: 40 }, (_, id) => requestOf({ id, maxTokens: 5 }));
    const late = requestOf({ id: 99 });
    const { records, stats } = await runScript(
      runnerOf(),
      { ...LIMITS, maxWaiting: 38 },
      new Map([
        [0, requests.slice(0, 40).map(generate)],
        // Ten steps later four have ended and four have started; as many more fill the queue again.
        [20, [100, 101, 102, 103, 104, 105].map((id) => generate(requestOf({ id })))],
        [21, [generate(late)]],
      ]),
    );
    const { error, timings } = records.get('99/0')!.last;
    expect(error?.code).toBe('queue_full');
    // Two requests start every five steps, and two started with the first.
    const perStep = (stats[9]!.time - stats[0]!.time) / 9;
    expect(error?.retryAfter).toBeGreaterThan(38 * perStep);
    expect(error?.retryAfter).toBeLessThan(38 * 3 * perStep);
    expect(timings?.firstScheduled).toBeUndefined();
  });
});

describe('throughput', () => {
  test('is measured over the time worked, the latest counting most', () => {
    const throughput = new Throughput();
    expect(throughput.timeToStart(10, 1000)).toBeUndefined();
    for (let i = 0; i < 100; i++) throughput.record(0.1, 1, 50);
    expect(throughput.timeToStart(20, 100)).toBeCloseTo(2, 6);
    expect(throughput.timeToStart(1, 1000)).toBeCloseTo(2, 6);
    for (let i = 0; i < 3000; i++) throughput.record(0.1, i % 2, (i % 2) * 50);
    expect(throughput.timeToStart(20, 100)).toBeCloseTo(4, 1);
  });
});

describe('a deadline for the start (case 72, atlas#482)', () => {
  test('that passes ends the request with an error, without a token and without prefill', async () => {
    const running = [1, 2].map((id) => requestOf({ id, maxTokens: 40 }));
    const waiting = [
      requestOf({ id: 3, prompt: [7, 7, 7, 7, 7], queueTimeout: 0.05 }),
      requestOf({ id: 4, prompt: [8, 8, 8], queueTimeout: 0.05, choices: 3 }),
      requestOf({ id: 5, prompt: [9, 9, 9] }),
    ];
    const { records, stats } = await runRequests(runnerOf(), LIMITS, [...running, ...waiting]);
    for (const key of ['3/0', '4/0', '4/1', '4/2']) {
      const { last, tokens, outputs, finishes } = records.get(key)!;
      expect([outputs.length, finishes, tokens]).toEqual([1, 1, []]);
      expect(last).toMatchObject({ finish: 'error', error: { code: 'timeout' } });
      expect(last.error!.message).toMatch(/waited 0\.\d s without being started/);
      expect(last.timings!.firstScheduled).toBeUndefined();
      expect(last.timings!.finished - last.timings!.arrival).toBeGreaterThanOrEqual(0.05);
      expect(last.timings!.finished - last.timings!.arrival).toBeLessThan(0.08);
    }
    for (const id of [1, 2, 5]) expect(records.get(`${id}/0`)!.last.finish).toBe('length');
    expect(stats.reduce((sum, { prefillTokens }) => sum + prefillTokens, 0)).toBe(9);
  });

  test('holds for all requests when the engine has one, the shorter of two', async () => {
    const requests = [1, 2, 3, 4].map((id) =>
      requestOf({ id, maxTokens: 60, ...(id === 4 && { queueTimeout: 0.02 }), ...(id === 3 && { queueTimeout: 9 }) }),
    );
    const { records } = await runRequests(runnerOf(), { ...LIMITS, queueTimeout: 0.06 }, requests);
    const waited = (id: number) => records.get(`${id}/0`)!.last.timings!.finished;
    expect([3, 4].map((id) => records.get(`${id}/0`)!.last.error?.code)).toEqual(['timeout', 'timeout']);
    expect(waited(4)).toBeLessThan(0.06);
    expect(waited(3)).toBeGreaterThanOrEqual(0.06);
    expect(waited(3)).toBeLessThan(0.09);
  });

  test('does not end what was started and preempted', async () => {
    const requests = [1, 2, 3].map((id) => requestOf({ id, prompt: [id, 1, 2, 3], maxTokens: 24 }));
    const limits = { ...LIMITS, maxNumSeqs: 3, queueTimeout: 0.02 };
    const { records, stats } = await runRequests(new FakeRunner({ blockSize: 4, numBlocks: 9 }), limits, requests);
    expect(stats.at(-1)!.preemptions).toBeGreaterThan(0);
    for (const { last } of records.values()) expect(last.finish).toBe('length');
  });

  test('passes while a batch waits to be full', async () => {
    const limits = { ...LIMITS, batching: 'static' as const, batchWindow: 0.5 };
    const requests = [requestOf({ id: 1, queueTimeout: 0.05 })];
    const { records, stats } = await runRequests(runnerOf(), limits, requests);
    expect(records.get('1/0')!.last.error?.code).toBe('timeout');
    expect(stats.at(-1)!.steps).toBe(0);
  });
});
