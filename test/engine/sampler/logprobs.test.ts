import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expNegative, FARTHEST } from '../../../src/engine/sampler/exponential.js';
import { LOWEST_LOGPROB, Logprobs } from '../../../src/engine/sampler/logprobs.js';

describe('Logprobs', () => {
  const logprobs = new Logprobs();

  test('are the log-softmax, the alternatives best first and among equals the lower id', () => {
    const row = Float32Array.from([1, 3, 2, 3]);
    const normalizer = Math.log([...row].reduce((sum, logit) => sum + Math.exp(logit), 0));
    const { token, logprob, top } = logprobs.of(row, 2, 3);
    expect(token).toBe(2);
    expect(logprob).toBeCloseTo(2 - normalizer, 10);
    expect(top.map((entry) => entry.token)).toEqual([1, 3, 2]);
    expect(top[2]!.logprob).toBeCloseTo(2 - normalizer, 10);
  });

  test('agree with a sort of the whole row', () => {
    const rows = fc.array(fc.oneof(fc.double({ min: -30, max: 30, noNaN: true }), fc.integer({ min: -2, max: 2 })), {
      minLength: 1,
      maxLength: 80,
    });
    fc.assert(
      fc.property(rows, fc.nat(), fc.nat(25), (values, pick, alternatives) => {
        const row = Float32Array.from(values);
        const token = pick % row.length;
        const maximum = Math.max(...row);
        const normalizer = maximum + Math.log(row.reduce((sum, logit) => sum + Math.exp(logit - maximum), 0));
        const result = logprobs.of(row, token, alternatives);
        expect(result.logprob).toBeCloseTo(row[token]! - normalizer, 8);
        expect(result.rank).toBe(1 + row.filter((logit) => logit > row[token]!).length);
        const sorted = [...row.keys()].sort((a, b) => row[b]! - row[a]! || a - b).slice(0, alternatives);
        expect(result.top.map((entry) => entry.token)).toEqual(sorted);
      }),
    );
  });

  test('are finite for any row', () => {
    const { NaN: nan, POSITIVE_INFINITY: infinity, NEGATIVE_INFINITY: minus } = Number;
    for (const row of [
      [nan, minus, infinity],
      [nan, 1, infinity],
      [3e38, -3e38, 0],
      [minus, minus, 0],
    ]) {
      for (let token = 0; token < 3; token++) {
        const { logprob, top } = logprobs.of(Float32Array.from(row), token, 3);
        for (const value of [logprob, ...top.map((entry) => entry.logprob)]) {
          expect(value).toBeGreaterThanOrEqual(LOWEST_LOGPROB);
          expect(value).toBeLessThanOrEqual(0);
        }
      }
    }
    expect(logprobs.of(Float32Array.from([nan, 1, infinity]), 1, 3)).toEqual({
      token: 1,
      logprob: 0,
      rank: 1,
      top: [{ token: 1, logprob: 0 }],
    });
    expect(logprobs.of(Float32Array.from([nan, 1, infinity]), 0, 0).rank).toBe(2);
    expect(logprobs.of(Float32Array.from([minus, 3, 2]), 0, 0).rank).toBe(3);
  });
});

test('expNegative agrees with Math.exp', () => {
  for (let distance = 0; distance < FARTHEST; distance += 0.0137) {
    const exact = Math.exp(-distance);
    expect(Math.abs(expNegative(distance) - exact)).toBeLessThan(1e-11 * exact);
  }
});
