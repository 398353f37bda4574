/**
 * Latencies over real sockets against what the scripted server noted, on the same clock, so that its timers may be late.
 * The machine may be late too, between writing and reading; a plain connection beside the test measures by how much.
 */
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { interTokenLatencies, type RequestRecord, timePerOutputToken } from '../../src/loadgen/record.js';
import { runLoad } from '../../src/loadgen/run.js';
import { statistics } from '../../src/loadgen/stats.js';
import { makeAgent, makeTarget } from '../../src/loadgen/target.js';
import { Workload } from '../../src/loadgen/workload.js';
import { measureNoise, type NoiseMeter } from '../support/loopback-noise.js';
import {
  completionChunk,
  DONE,
  FRAMINGS,
  type MockRequest,
  type MockScript,
  type MockServer,
  startMock,
  usageChunk,
} from '../support/mock-openai.js';

const TOLERANCE_MS = 2;
const workload = new Workload({
  model: 'mock-model',
  endpoint: 'completions',
  seed: 7,
  promptTokens: { kind: 'uniform', low: 8, high: 8 },
  outputTokens: { kind: 'uniform', low: 12, high: 24 },
  sharedPrefixTokens: 0,
  promptAs: 'ids',
  tokenIds: { low: 0, high: 30_000 },
  ignoreEos: true,
  continuousUsage: true,
  extraBody: {},
});

let mock: MockServer | undefined;
let noise: NoiseMeter;
beforeEach(async () => {
  noise = await measureNoise();
});
afterEach(async () => {
  await mock?.close();
  await noise.stop();
});

/** Each completed request, sent at times of its own, with the server's own notes of it. */
async function run(script: MockScript): Promise<{ record: RequestRecord; seen: MockRequest }[]> {
  mock = await startMock(script);
  const target = makeTarget(mock.url, undefined);
  const agent = makeAgent(target);
  const { records } = await runLoad(
    { kind: 'open', rate: 50, arrival: { kind: 'poisson' } },
    {
      target,
      agent,
      workload,
      seed: 7,
      limit: { requests: 32 },
      timeout: 20_000,
      signal: new AbortController().signal,
    },
    'timing',
  );
  agent.destroy();
  expect(records.filter((record) => record.outcome !== 'completed')).toEqual([]);
  const seen = new Map(mock.requests.map((request) => [JSON.stringify(request.body), request]));
  expect(seen.size).toBe(32);
  return records.map((record) => ({
    record,
    seen: seen.get(workload.request('timing', record.index).body.toString())!,
  }));
}

/**
 * The figures agree within 2 ms. Means and high percentiles are allowed the machine's own delay on top, once for sending
 * and once for receiving, which on a quiet machine is a fraction of a millisecond.
 */
function expectAgreement(name: string, measured: readonly number[], noted: readonly number[]): void {
  expect(measured.length, name).toBe(noted.length);
  const [ours, theirs, late] = [statistics(measured)!, statistics(noted)!, statistics(noise.delays)!];
  const allowed = { p50: TOLERANCE_MS, mean: TOLERANCE_MS + 2 * late.mean, p90: TOLERANCE_MS + 2 * late.p90 };
  for (const key of ['p50', 'mean', 'p90'] as const) {
    expect(Math.abs(ours[key] - theirs[key]), `${name} ${key}: ${ours[key]} for ${theirs[key]}`).toBeLessThan(
      allowed[key],
    );
  }
  const errors = statistics(measured.map((value, index) => Math.abs(value - noted[index]!)))!;
  expect(errors.p50, `${name}: median error of a sample`).toBeLessThan(TOLERANCE_MS);
}

const gaps = (times: readonly number[]): number[] => times.slice(1).map((time, index) => time - times[index]!);

beforeAll(async () => {
  // Once for the compiler, which would otherwise be part of the first latencies.
  await run(() => ({ steps: [{ bytes: FRAMINGS[0]!.frame(completionChunk('x', { usage: 1, finish: 'stop' })) }] }));
  await mock?.close();
});

describe.each(FRAMINGS)('latencies with events framed with $name (cases 79 and 80)', ({ frame }) => {
  it('are within 2 ms of the times at which the server wrote', { retry: 3 }, async () => {
    const pairs = await run(({ body }) => {
      const tokens: number = body.max_tokens;
      return {
        steps: [
          ...Array.from({ length: tokens }, (_, index) => ({
            delay: index === 0 ? 20 : 2 + (index % 5),
            bytes: frame(
              completionChunk(' é🌊', { usage: index + 1, ...(index + 1 === tokens ? { finish: 'length' } : {}) }),
            ),
          })),
          // Late, and no part of any latency: the answer was complete before.
          { delay: 15, bytes: frame(usageChunk(tokens)) + frame(DONE) },
        ],
      };
    });
    const written = pairs.map(({ seen }) => seen.writtenAt.slice(0, -1));
    const answers = pairs.map(({ record }) => record.answer!);
    expect(answers.map((answer) => answer.outputTokens)).toEqual(pairs.map(({ seen }) => seen.body.max_tokens));
    expectAgreement(
      'TTFT',
      pairs.map(({ record }) => record.answer!.ttft - record.connect),
      pairs.map(({ seen }) => seen.writtenAt[0]! - seen.receivedAt),
    );
    expectAgreement('ITL', answers.flatMap(interTokenLatencies), written.flatMap(gaps));
    expectAgreement(
      'TPOT',
      answers.map((answer) => timePerOutputToken(answer)!),
      written.map((times) => (times.at(-1)! - times[0]!) / (times.length - 1)),
    );
    expectAgreement(
      'end to end',
      pairs.map(({ record }) => record.answer!.e2e - record.connect),
      pairs.map(({ seen }, index) => written[index]!.at(-1)! - seen.receivedAt),
    );
  });
});

describe('several tokens a chunk (case 79, vllm#42661)', () => {
  it('gives each token of a step its share of the gap', { retry: 3 }, async () => {
    const sizes = [4, 1, 1, 3, 1, 2];
    const pairs = await run(() => ({
      steps: sizes.map((_, index) => ({
        delay: 6,
        bytes: FRAMINGS[0]!.frame(
          completionChunk(' x', {
            usage: sizes.slice(0, index + 1).reduce((sum, size) => sum + size),
            ...(index === sizes.length - 1 ? { finish: 'length' } : {}),
          }),
        ),
      })),
    }));
    const answers = pairs.map(({ record }) => record.answer!);
    expect(answers.every((answer) => answer.outputTokens === 12)).toBe(true);
    expectAgreement(
      'ITL',
      answers.flatMap(interTokenLatencies),
      pairs.flatMap(({ seen }) =>
        gaps(seen.writtenAt).flatMap((gap, index) =>
          new Array<number>(sizes[index + 1]!).fill(gap / sizes[index + 1]!),
        ),
      ),
    );
    expectAgreement(
      'TPOT',
      answers.map((answer) => timePerOutputToken(answer)!),
      pairs.map(({ seen }) => (seen.writtenAt.at(-1)! - seen.writtenAt[0]!) / 11),
    );
  });
});
