import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { Load } from '../../src/loadgen/load.js';
import { arrivalTimes } from '../../src/loadgen/load.js';
import { randomSource } from '../../src/loadgen/random.js';
import { type RunOptions, runLoad } from '../../src/loadgen/run.js';
import { statistics } from '../../src/loadgen/stats.js';
import { makeAgent, makeTarget } from '../../src/loadgen/target.js';
import { Workload } from '../../src/loadgen/workload.js';
import {
  completionChunk,
  DONE,
  FRAMINGS,
  type MockAnswer,
  type MockServer,
  startMock,
} from '../support/mock-openai.js';

const { frame } = FRAMINGS[0]!;
const quick: MockAnswer = {
  steps: [{ delay: 20, bytes: frame(completionChunk('x', { usage: 1, finish: 'stop' })) + frame(DONE) }],
};
const workload = new Workload({
  model: 'm',
  endpoint: 'completions',
  seed: 1,
  promptTokens: { kind: 'uniform', low: 4, high: 4 },
  outputTokens: { kind: 'uniform', low: 1, high: 1 },
  sharedPrefixTokens: 0,
  promptAs: 'ids',
  tokenIds: { low: 0, high: 9999 },
  ignoreEos: false,
  continuousUsage: true,
  extraBody: {},
});

let mock: MockServer;
afterEach(() => mock?.close());

async function run(load: Load, limit: RunOptions['limit'], signal = new AbortController().signal, answer = quick) {
  mock = await startMock(() => answer);
  const target = makeTarget(mock.url, undefined);
  const agent = makeAgent(target);
  const result = await runLoad(load, { target, agent, workload, seed: 9, limit, timeout: 5000, signal });
  agent.destroy();
  return result;
}

/** The largest number of requests that were under way at one time. */
function mostAtOnce(records: readonly { sent: number; end: number }[]): number {
  return Math.max(
    ...records.map(({ sent }) => records.filter((other) => other.sent <= sent && other.end > sent).length),
  );
}

describe('a closed load', () => {
  it('keeps so many requests under way, and sends each once', async () => {
    const { records } = await run({ kind: 'closed', concurrency: 4 }, { requests: 22 });
    expect(records.map((record) => record.index).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 22 }, (_, n) => n),
    );
    expect(records.every((record) => record.outcome === 'completed')).toBe(true);
    expect(mostAtOnce(records)).toBe(4);
    expect(mock.connections()).toBe(4);
    expect(new Set(mock.requests.map(({ body }) => JSON.stringify(body.prompt))).size).toBe(22);
  });

  it('sends no more than there are requests', async () => {
    const { records } = await run({ kind: 'closed', concurrency: 8 }, { requests: 3 });
    expect(records).toHaveLength(3);
  });

  it('stops sending after its duration, and waits for what is under way', async () => {
    const { records } = await run({ kind: 'closed', concurrency: 2 }, { duration: 150 });
    expect(records.every((record) => record.outcome === 'completed' && record.planned < 150)).toBe(true);
    expect(records.length).toBeGreaterThanOrEqual(4);
  });
});

describe('an open load', () => {
  const load: Load = { kind: 'open', rate: 60, arrival: { kind: 'poisson' } };

  it('sends at the planned times, however long answers take, and never before', async () => {
    const slow: MockAnswer = { steps: [{ ...quick.steps[0]!, delay: 300 }] };
    const { records, own } = await run(load, { requests: 24 }, undefined, slow);
    const times = arrivalTimes(load, randomSource(9, '60 req/s poisson', 'arrivals'));
    const planned = Array.from({ length: 24 }, () => times.next().value);
    const byIndex = records.toSorted((a, b) => a.index - b.index);
    for (const [index, record] of byIndex.entries()) {
      expect(record.planned).toBeCloseTo(planned[index]!, 6);
      expect(record.sent).toBeGreaterThanOrEqual(record.planned);
    }
    expect(mostAtOnce(records)).toBeGreaterThan(5);
    expect(own.send).toEqual(statistics(records.map((record) => record.sent - record.planned)));
    // No later than the event loop itself was, but for the making of a request.
    expect(own.send!.p50).toBeLessThan(2 + own.loop.max);
  });

  it('stops at its duration', async () => {
    const { records } = await run(load, { duration: 200 });
    expect(records.length).toBeGreaterThan(2);
    expect(Math.max(...records.map((record) => record.planned))).toBeLessThan(200);
  });

  it('sends all at once at an infinite rate', async () => {
    const { records } = await run({ ...load, rate: Number.POSITIVE_INFINITY }, { requests: 10 });
    expect(records).toHaveLength(10);
    expect(mostAtOnce(records)).toBe(10);
  });
});

describe('a signal', () => {
  it('ends a load: nothing more is sent, and what is under way is given up', async () => {
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 100);
    const hang: MockAnswer = { steps: [], end: 'hang' };
    const { records } = await run({ kind: 'closed', concurrency: 3 }, { requests: 50 }, stop.signal, hang);
    expect(records.map((record) => record.outcome)).toEqual(['cancelled', 'cancelled', 'cancelled']);
    await expect.poll(() => mock.requests.every((request) => request.aborted)).toBe(true);
  });
});

describe('the client’s own delay', () => {
  it('shows when the event loop was held up', async () => {
    const running = run({ kind: 'open', rate: 40, arrival: { kind: 'poisson' } }, { requests: 20 });
    await sleep(150);
    const until = performance.now() + 200;
    while (performance.now() < until);
    const { own } = await running;
    expect(own.loop.max).toBeGreaterThan(80);
    expect(own.send!.max).toBeGreaterThan(30);
    expect(own.utilization).toBeGreaterThan(0.1);
  });
});
