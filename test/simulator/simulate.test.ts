/** Simulations against what can be worked out, and against the engine's own loop on the same clock. */
import { describe, expect, it } from 'vitest';
import { EngineLoop } from '../../src/engine/loop.js';
import type { EnginePort } from '../../src/engine/port.js';
import type { CommandBatch, WorkerMessage } from '../../src/engine/protocol.js';
import type { StepBatch } from '../../src/model/runner.js';
import { type SimulationOptions, simulate } from '../../src/simulator/simulate.js';
import { stepTime } from '../../src/simulator/step-time.js';
import { Workload, type WorkloadOptions } from '../../src/simulator/workload.js';
import { FakeRunner } from '../support/fake-runner.js';

const stepTimes = {
  description: 'made up',
  microseconds: [2000, 500, 200, 100, 20, 30, 0.1, 0.02],
  mixedSteps: true,
};

const workload: WorkloadOptions = {
  load: { kind: 'open', rate: 10, arrival: { kind: 'poisson' } },
  requests: 400,
  seed: 5,
  promptTokens: { kind: 'lognormal', median: 100, sigma: 0.8 },
  outputTokens: { kind: 'uniform', low: 1, high: 80 },
  sharedPrefixTokens: 64,
  prefixGroups: 3,
  users: 1,
  maxModelLen: 1000,
};

const options: SimulationOptions = {
  workload,
  stepTimes,
  maxNumSeqs: 16,
  maxNumBatchedTokens: 256,
  numBlocks: 200,
  blockSize: 16,
  enablePrefixCaching: true,
};

/** The work of a batch, counted from what the runner gets; the last token of a prompt is taken for a decode, if alone. */
function workOf(batch: StepBatch) {
  const work = { prefillTokens: 0, decodeTokens: 0, decodePairs: 0, prefillPairs: 0 };
  for (let b = 0; b < batch.pastLengths.length; b++) {
    const [count, past] = [batch.cumulativeLengths[b + 1]! - batch.cumulativeLengths[b]!, batch.pastLengths[b]!];
    if (count === 1) {
      work.decodeTokens++;
      work.decodePairs += past;
    } else {
      work.prefillTokens += count;
      work.prefillPairs += count * past + (count * (count - 1)) / 2;
    }
  }
  return work;
}

describe('a simulation', () => {
  it('of one request takes the steps that it has', () => {
    const one = { ...workload, requests: 1, promptTokens: { kind: 'uniform', low: 500, high: 500 } } as const;
    const outputTokens = { kind: 'uniform', low: 3, high: 3 } as const;
    const summary = simulate({ ...options, workload: { ...one, outputTokens, sharedPrefixTokens: 0 } }).summary();
    const prefill = (start: number, count: number) => ({
      prefillTokens: count,
      decodeTokens: 0,
      decodePairs: 0,
      prefillPairs: count * start + (count * (count - 1)) / 2,
    });
    const decode = (past: number) => ({ prefillTokens: 0, decodeTokens: 1, decodePairs: past, prefillPairs: 0 });
    const ttft = stepTime(prefill(0, 256), stepTimes) + stepTime(prefill(256, 244), stepTimes);
    const rest = stepTime(decode(500), stepTimes) + stepTime(decode(501), stepTimes);
    expect(summary.ttft!.mean).toBeCloseTo(ttft * 1000, 6);
    expect(summary.tpot!.mean).toBeCloseTo((rest / 2) * 1000, 6);
    expect(summary.e2e!.mean).toBeCloseTo((ttft + rest) * 1000, 6);
    expect(summary).toMatchObject({ requests: 1, steps: 4, preemptions: 0, prefixHits: 0, refused: 0 });
  });

  it.each([
    ['as it comes', {}],
    ['with a pool so small that sequences are preempted', { numBlocks: 64 }],
    ['without prefix cache', { enablePrefixCaching: false }],
    ['with steps of prompts and of decodes', { mixedSteps: false }],
  ])('gives each request the times that the engine’s loop gives it: %s', async (_, changes) => {
    const setup = { ...options, ...changes };
    const simulated = simulate(setup).summary();

    // The loop itself, with a runner that takes the same time for the same work.
    let now = 0;
    const source = new Workload(workload);
    const runner = new FakeRunner({ vocabSize: 50_000, blockSize: setup.blockSize, numBlocks: setup.numBlocks });
    runner.run = async (batch) => {
      now += stepTime(workOf(batch), stepTimes);
      const values = new Float32Array(0);
      const tokens = batch.logitRows.map((_row, i) => i & 1023);
      return { vocabSize: 50_000, values, likeliest: { tokens, logits: new Float32Array(tokens.length) } };
    };
    const messages: WorkerMessage[] = [];
    let given = false;
    const port: EnginePort = {
      receive(): CommandBatch | undefined {
        given = !given;
        if (!given) return undefined;
        const commands: CommandBatch['commands'][number][] = [];
        while (source.next !== undefined && source.next <= now) {
          commands.push({ kind: 'generate', request: source.take() });
        }
        if (source.next === undefined && commands.length === 0 && !loop.scheduler.hasWork) {
          commands.push({ kind: 'shutdown' });
        }
        return { commands };
      },
      async wait() {
        now = Math.max(now, source.next ?? now);
      },
      send: (message) => messages.push(message),
    };
    const loop: EngineLoop = new EngineLoop(runner, port, { ...setup, maxModelLen: workload.maxModelLen }, () => now);
    await loop.run();

    const timings = messages.flatMap((message) =>
      message.kind === 'step' ? message.outputs.flatMap(({ timings: own }) => own ?? []) : [],
    );
    const ttfts = timings.map(({ firstToken, arrival }) => (firstToken! - arrival) * 1000).sort((a, b) => a - b);
    expect(ttfts).toHaveLength(400);
    expect(simulated.requests).toBe(400);
    expect(loop.scheduler.preemptions).toBe(simulated.preemptions);
    expect(simulated.preemptions > 0).toBe(setup.numBlocks === 64);
    const mean = (values: readonly number[]) => values.reduce((a, b) => a + b) / values.length;
    expect(mean(ttfts) / simulated.ttft!.mean).toBeCloseTo(1, 2);
    expect(ttfts[200]! / simulated.ttft!.p50).toBeCloseTo(1, 1);
    expect(now / simulated.duration).toBeCloseTo(1, 3);
  });

  it('is the same for the same seed, and another for another', () => {
    const [a, b] = [simulate(options).summary(), simulate(options).summary()];
    expect(a).toEqual(b);
    expect(simulate({ ...options, workload: { ...workload, seed: 6 } }).summary()).not.toEqual(a);
  });

  it('shows what prefixes, fair shares and batching are for', () => {
    const on = simulate(options).summary();
    const off = simulate({ ...options, enablePrefixCaching: false }).summary();
    expect(on.prefixHits).toBeGreaterThan(0.3);
    expect(off.prefixHits).toBe(0);
    expect(on.ttft!.mean).toBeLessThan(off.ttft!.mean);
    const rate = (batching: 'continuous' | 'static' | 'none') => {
      const load = { kind: 'open', rate: 200, arrival: { kind: 'poisson' } } as const;
      return simulate({ ...options, batching, workload: { ...workload, load } }).summary().requestsPerSecond;
    };
    expect(rate('continuous')).toBeGreaterThan(rate('static'));
    expect(rate('static')).toBeGreaterThan(2 * rate('none'));
  });

  it('leaves less than 4 % of the slots of held blocks empty, with lengths of all kinds', () => {
    const mixed = {
      ...workload,
      load: { kind: 'closed', concurrency: 48 },
      requests: 1000,
      promptTokens: { kind: 'lognormal', median: 200, sigma: 0.8 },
      outputTokens: { kind: 'lognormal', median: 100, sigma: 0.7 },
      sharedPrefixTokens: 0,
      maxModelLen: 8192,
    } as const;
    // The defaults of a server.
    const server = { ...options, maxNumSeqs: 64, maxNumBatchedTokens: 512, numBlocks: 700, blockSize: 32 };
    const summary = simulate({ ...server, workload: mixed }).summary();
    expect(summary.running).toBeGreaterThan(20);
    expect(summary.waste).toBeLessThan(0.04);
    expect(summary.waste).toBeGreaterThan(0.01);
  });

  it('counts what is refused and what is overdue', () => {
    const load = { kind: 'open', rate: 1000, arrival: { kind: 'poisson' } } as const;
    const full = simulate({ ...options, maxWaiting: 20, workload: { ...workload, load } }).summary();
    expect(full.refused).toBeGreaterThan(100);
    expect(full.refused + full.requests).toBe(400);
    const late = simulate({ ...options, workload: { ...workload, load, queueTimeout: 0.5 } }).summary();
    expect(late.overdue).toBeGreaterThan(50);
    expect(late.overdue + late.requests).toBe(400);
    // Whoever was started was started in time.
    expect(late.ttft!.max).toBeLessThan(2000);
  });

  it('keeps so many at once in a closed loop', () => {
    const load = { kind: 'closed', concurrency: 5 } as const;
    const summary = simulate({ ...options, workload: { ...workload, load, requests: 100 } }).summary();
    expect(summary.requests).toBe(100);
    expect(summary.running + summary.waiting).toBeGreaterThan(4.5);
    expect(summary.running + summary.waiting).toBeLessThanOrEqual(5);
    expect(summary.utilization).toBeCloseTo(1, 6);
  });
});

describe('a workload', () => {
  it('has the rate, the lengths and the prefixes asked for', () => {
    const source = new Workload({
      ...workload,
      requests: 4000,
      users: 4,
      maxModelLen: 100_000,
      outputTokens: { kind: 'uniform', low: 7, high: 7 },
    });
    const prefixes = new Map<string, number>();
    const users = new Set<string>();
    let last = 0;
    for (let next = source.next; next !== undefined; next = source.next) {
      const { prompt, arrival, maxTokens, user } = source.take();
      expect([arrival, maxTokens]).toEqual([next, 7]);
      expect(arrival).toBeGreaterThanOrEqual(last);
      expect(prompt.length).toBeGreaterThan(64);
      last = arrival;
      const prefix = prompt.subarray(0, 64).join();
      prefixes.set(prefix, (prefixes.get(prefix) ?? 0) + 1);
      users.add(user);
    }
    expect(4000 / last / 10).toBeCloseTo(1, 1);
    expect([prefixes.size, users.size]).toEqual([3, 4]);
    for (const count of prefixes.values()) expect(count).toBeGreaterThan(1000);
  });

  it('cuts sequences to what the model can hold', () => {
    const long = { kind: 'uniform', low: 2000, high: 3000 } as const;
    const source = new Workload({ ...workload, requests: 50, promptTokens: long, outputTokens: long });
    while (source.next !== undefined) {
      const { prompt, maxTokens } = source.take();
      expect([prompt.length, maxTokens]).toEqual([999, 1]);
    }
  });
});
