/** A result of a load test as a run would write it, from a simple model of a server; the same each time. */
import type { Load } from '../../src/loadgen/load.js';
import { randomSource } from '../../src/loadgen/random.js';
import type { RequestRecord } from '../../src/loadgen/record.js';
import { type BenchResult, benchResult, loadResult } from '../../src/loadgen/result.js';

const STEPS = 40;

/** The server slows down with the requests at once; every 19th request breaks off. */
function simulate(load: Load): RequestRecord[] {
  const random = randomSource(1, JSON.stringify(load));
  const lanes = load.kind === 'closed' ? load.concurrency : 6;
  const free = new Array<number>(lanes).fill(0);
  return Array.from({ length: 12 * lanes }, (_, index) => {
    const lane = free.indexOf(Math.min(...free));
    const sent = load.kind === 'closed' ? free[lane]! : (index * 1000) / load.rate;
    const ttft = 30 + 12 * lanes * random();
    const step = 9 + 0.7 * lanes;
    const times = [ttft];
    for (let token = 1; token < STEPS; token += 1) times.push(times.at(-1)! + step * (0.8 + 0.5 * random() ** 4));
    const e2e = times.at(-1)!;
    free[lane] = sent + e2e + 1;
    const common = { index, planned: sent, sent, connect: 0, maxTokens: STEPS };
    if (index % 19 === 18) {
      const failure = { kind: 'cut', message: 'the stream ended without [DONE] or a finish reason' } as const;
      return { ...common, end: sent + e2e / 2, outcome: 'failed', failure };
    }
    const answer = {
      ttft,
      e2e,
      outputTokens: STEPS,
      promptTokens: 128,
      cachedTokens: 0,
      finishReason: 'length',
      outputTokensFrom: 'usage',
      chunkTokens: 'server',
      chunkTimes: times,
      chunkSizes: times.map(() => 1),
    } as const;
    return { ...common, end: sent + e2e, outcome: 'completed', answer };
  });
}

export function sampleResult(model = 'sample-model', loads: readonly Load[] = SAMPLE_LOADS): BenchResult {
  const own = { send: undefined, loop: { mean: 0.1, p99: 0.6, max: 2 }, utilization: 0.07 };
  const results = loads.map((load) =>
    loadResult({ load, records: simulate(load), own, startedAt: Date.UTC(2025, 0, 1, 12) }, { ttft: 200, tpot: 20 }),
  );
  return benchResult(model, { concurrency: '1,4,16', promptTokens: '128', outputTokens: String(STEPS) }, results);
}

const SAMPLE_LOADS: readonly Load[] = [
  { kind: 'closed', concurrency: 1 },
  { kind: 'closed', concurrency: 4 },
  { kind: 'closed', concurrency: 16 },
  { kind: 'open', rate: 8, arrival: { kind: 'poisson' } },
];
