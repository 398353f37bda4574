import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { histogram, statistics } from '../../src/loadgen/stats.js';

const samples = fc.array(fc.double({ min: 0, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 200 });

describe('statistics', () => {
  it('agree with NumPy on a known sample', () => {
    // numpy.percentile([15, 20, 35, 40, 50], [50, 90, 95, 99])
    expect(statistics([50, 15, 40, 20, 35])).toEqual({
      count: 5,
      mean: 32,
      p50: 35,
      p90: expect.closeTo(46, 9),
      p95: expect.closeTo(48, 9),
      p99: expect.closeTo(49.6, 9),
      min: 15,
      max: 50,
    });
  });

  it('are undefined without samples, and the sample itself of one', () => {
    expect(statistics([])).toBeUndefined();
    expect(statistics([7])).toEqual({ count: 1, mean: 7, p50: 7, p90: 7, p95: 7, p99: 7, min: 7, max: 7 });
  });

  it('rise from the smallest to the largest sample, whatever the order of the samples', () => {
    fc.assert(
      fc.property(samples, (values) => {
        const { min, p50, p90, p95, p99, max, mean } = statistics(values)!;
        const rising = [min, p50, p90, p95, p99, max];
        expect(rising).toEqual(rising.toSorted((a, b) => a - b));
        expect(min).toBe(Math.min(...values));
        expect(max).toBe(Math.max(...values));
        expect(mean).toBeGreaterThanOrEqual(min - 1e-6);
        expect(mean).toBeLessThanOrEqual(max + 1e-6);
        expect(statistics(values.toReversed())).toMatchObject({ min, p50, p90, p95, p99, max });
      }),
    );
  });

  it('leave at most the named share of samples above each percentile', () => {
    fc.assert(
      fc.property(samples, (values) => {
        const found = statistics(values)!;
        for (const [key, share] of [
          ['p50', 0.5],
          ['p90', 0.9],
          ['p95', 0.95],
          ['p99', 0.99],
        ] as const) {
          // R-7 puts the percentile between the samples around position share * (n - 1).
          const above = values.filter((value) => value > found[key]).length;
          expect(above).toBeLessThanOrEqual(Math.ceil((1 - share) * (values.length - 1) + 1e-9));
        }
      }),
    );
  });
});

describe('histogram', () => {
  it('counts every sample within its range exactly once', () => {
    fc.assert(
      fc.property(samples, fc.integer({ min: 1, max: 60 }), (values, bins) => {
        const high = Math.max(...values) + 1;
        const counted = histogram(values, 0, high, bins);
        expect(counted.reduce((sum, bin) => sum + bin.count, 0)).toBe(values.length);
        expect(counted).toHaveLength(bins);
        for (const [index, bin] of counted.entries()) {
          const last = index === counted.length - 1;
          const inside = values.filter((value) => value >= bin.low && (last ? value <= bin.high : value < bin.high));
          expect(bin.count).toBe(inside.length);
        }
      }),
    );
  });
});
