import { describe, expect, it } from 'vitest';
import { compareLoads, formatComparison } from '../../src/loadgen/compare.js';
import type { OwnDelay } from '../../src/loadgen/own-delay.js';
import { type Answer, interTokenLatencies, type RequestRecord, timePerOutputToken } from '../../src/loadgen/record.js';
import { summarize } from '../../src/loadgen/summary.js';
import { formatNumber, formatTable } from '../../src/loadgen/table.js';

const idle: OwnDelay = { send: undefined, loop: { mean: 0, p99: 0, max: 0 }, utilization: 0 };

const answer = (changed: Partial<Answer> = {}): Answer => ({
  ttft: 100,
  e2e: 160,
  outputTokens: 4,
  promptTokens: 10,
  cachedTokens: 2,
  finishReason: 'length',
  outputTokensFrom: 'usage',
  chunkTokens: 'server',
  chunkTimes: [100, 120, 160],
  chunkSizes: [1, 1, 2],
  ...changed,
});

const record = (changed: Partial<RequestRecord>): RequestRecord => ({
  index: 0,
  outcome: 'completed',
  planned: 0,
  sent: 0,
  end: 160,
  connect: 0,
  maxTokens: 4,
  ...changed,
});

const failed = (kind: 'cut' | 'http_429', sent: number, end: number): RequestRecord =>
  record({ outcome: 'failed', sent, end, failure: { kind, message: `message of ${kind} at ${sent}` } });

describe('latencies of an answer', () => {
  it('give TPOT without the first token, and each token of a step its share', () => {
    expect(timePerOutputToken(answer())).toBe(20);
    expect(interTokenLatencies(answer())).toEqual([20, 20, 20]);
  });

  it('have no TPOT and no ITL for one token', () => {
    const single = answer({ outputTokens: 1, chunkTimes: [100], chunkSizes: [1] });
    expect(timePerOutputToken(single)).toBeUndefined();
    expect(interTokenLatencies(single)).toEqual([]);
  });
});

describe('a summary', () => {
  const records = [
    record({ sent: 1000, end: 1200, answer: answer() }),
    record({ sent: 1100, end: 3000, answer: answer({ ttft: 300, e2e: 1800, outputTokens: 16 }) }),
    failed('cut', 1500, 2000),
    failed('http_429', 1600, 1700),
    failed('cut', 2500, 2600),
    record({ outcome: 'cancelled', sent: 2900, end: 9000 }),
  ];
  const summary = summarize(records, idle, { ttft: 200 });

  it('counts outcomes, and errors by kind with the first message', () => {
    expect(summary).toMatchObject({ completed: 2, failed: 3, cancelled: 1 });
    expect(summary.errors).toEqual([
      { kind: 'cut', count: 2, example: 'message of cut at 1500' },
      { kind: 'http_429', count: 1, example: 'message of http_429 at 1600' },
    ]);
  });

  it('takes throughput from the first sending to the last end, of completed requests only', () => {
    expect(summary).toMatchObject({
      duration: 2000,
      requestThroughput: 1,
      outputThroughput: 10,
      totalThroughput: 20,
      outputTokens: 20,
      promptTokens: 20,
      cachedTokens: 4,
    });
  });

  it('counts goodput by completed requests that keep the objective', () => {
    expect(summary.goodput).toEqual({ slo: { ttft: 200 }, throughput: 0.5, share: 0.2 });
  });

  it('has latencies of completed requests only', () => {
    expect(summary.latencies.ttft).toMatchObject({ count: 2, mean: 200 });
    expect(summary.latencies.tpot).toMatchObject({ count: 2, max: 100 });
  });

  it('stands without a completed request, and without any', () => {
    expect(summarize([failed('cut', 0, 10)], idle)).toMatchObject({ completed: 0, failed: 1, requestThroughput: 0 });
    expect(summarize([], idle)).toMatchObject({ completed: 0, duration: 0, latencies: { ttft: undefined } });
  });

  it('warns when the client was late or busy, and is silent when it was not', () => {
    const send = { count: 1, mean: 20, p50: 20, p90: 20, p95: 20, p99: 20, min: 20, max: 20 };
    const late = summarize([], { send, loop: { mean: 5, p99: 30, max: 50 }, utilization: 0.95 }).warnings;
    expect(late).toEqual([
      expect.stringMatching(/20.0 ms late/),
      expect.stringMatching(/30.0 ms late/),
      expect.stringMatching(/95 %/),
    ]);
    expect(summary.warnings).toEqual([]);
  });

  it('warns of a late event loop only where it is a good part of the time between tokens', () => {
    const late: OwnDelay = { ...idle, loop: { mean: 1, p99: 15, max: 20 } };
    const tokensEvery = (gap: number) =>
      record({ answer: answer({ chunkTimes: [100, 100 + gap, 100 + 2 * gap], chunkSizes: [1, 1, 1] }) });
    expect(summarize([tokensEvery(100)], late).warnings).toEqual([expect.stringMatching(/15.0 ms late/)]);
    expect(summarize([tokensEvery(200)], late).warnings).toEqual([]);
  });

  it('warns when tokens could not be counted', () => {
    const bundled = answer({ chunkTokens: 'assumed', outputTokens: 12, chunkSizes: [1, 1, 1] });
    expect(summarize([record({ answer: bundled })], idle).warnings).toEqual([
      expect.stringMatching(/4.0 tokens a chunk/),
    ]);
    const uncounted = answer({ chunkTokens: 'assumed', outputTokensFrom: 'chunks' });
    expect(summarize([record({ answer: uncounted })], idle).warnings).toEqual([expect.stringMatching(/without usage/)]);
  });
});

describe('a comparison', () => {
  const load = (label: string, answers: Answer[]) => ({
    label,
    summary: summarize(
      answers.map((one) => record({ answer: one })),
      idle,
    ),
  });
  const result = (loads: ReturnType<typeof load>[]) => ({
    format: 'sluice-bench' as const,
    version: 1 as const,
    startedAt: '2025-01-01T00:00:00.000Z',
    model: 'm',
    loads,
  });

  it('gives B / A of every figure that both have', () => {
    const lines = compareLoads(load('x', [answer()]), load('x', [answer({ ttft: 50, outputTokens: 2 })]));
    const ratio = (figure: string) => lines.find((line) => line.figure === figure)?.ratio;
    expect(ratio('TTFT p50 ms')).toBe(0.5);
    expect(ratio('output tokens/s')).toBe(0.5);
    expect(ratio('requests/s')).toBe(1);
    expect(ratio('goodput requests/s')).toBeUndefined();
  });

  it('says which side is better, and names loads that only one has', () => {
    const text = formatComparison(
      result([load('x', [answer()]), load('only here', [answer()])]),
      result([load('x', [answer({ ttft: 50, outputTokens: 2 })])]),
      ['a.json', 'b.json'],
    );
    expect(text).toMatch(/TTFT p50 ms +100 +50.0 +0.50 better/);
    expect(text).toMatch(/output tokens\/s +25.0 +12.5 +0.50 +worse/);
    expect(text).toMatch(/requests\/s +6.25 +6.25 +1.00\n/);
    expect(text).toContain('only in A: only here');
  });
});

describe('tables', () => {
  it('align all but the first column to the right', () => {
    expect(
      formatTable([
        ['a', 'b'],
        ['long', '1'],
      ]),
    ).toBe('a     b\nlong  1');
  });

  it.each([
    [0, '0'],
    [0.01234, '0.012'],
    [1.2345, '1.23'],
    [12.345, '12.3'],
    [99.96, '100.0'],
    [123.45, '123'],
    [12345.6, '12346'],
  ])('write %d as %s', (value, text) => expect(formatNumber(value)).toBe(text));
});
