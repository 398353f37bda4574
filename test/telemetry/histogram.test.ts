import fc from 'fast-check';
import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { lengthBuckets } from '../../src/telemetry/buckets.js';
import { BucketHistogram } from '../../src/telemetry/histogram.js';
import { observeDue } from '../../src/telemetry/loop-delay.js';
import { Scrape } from '../support/exposition.js';

async function scraped(registry: Registry): Promise<Scrape> {
  return new Scrape(await registry.metrics());
}

function histogramOf(buckets: readonly number[]) {
  const registry = new Registry();
  return { registry, histogram: new BucketHistogram(registry, { name: 'h', help: 'H.', buckets, labels: { a: 'b' } }) };
}

describe('a histogram', () => {
  it('counts each observation below every bound that it does not exceed', async () => {
    const observation = fc.tuple(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 1, max: 5 }));
    await fc.assert(
      fc.asyncProperty(fc.array(observation), async (observations) => {
        const bounds = [1, 5, 20, 50];
        const { registry, histogram } = histogramOf(bounds);
        for (const [value, times] of observations) histogram.observe(value, times);
        const all = observations.flatMap(([value, times]) => new Array<number>(times).fill(value));
        const metrics = await scraped(registry);
        for (const bound of bounds) {
          const below = all.filter((value) => value <= bound).length;
          expect(metrics.value('h_bucket', { le: String(bound), a: 'b' })).toBe(below);
        }
        expect(metrics.value('h_count')).toBe(all.length);
        expect(metrics.value('h_sum')).toBe(all.reduce((sum, value) => sum + value, 0));
      }),
      { numRuns: 50 },
    );
  });
});

describe('buckets of lengths', () => {
  it('are 1, 2 and 5 of every power of ten, up to the longest', () => {
    expect(lengthBuckets(8192)).toEqual([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]);
    expect(lengthBuckets(20)).toEqual([1, 2, 5, 10, 20]);
    expect(lengthBuckets(1)).toEqual([1]);
  });
});

describe('the delay of the event loop', () => {
  const bounds = [0.001, 0.025, 0.05, 0.1, 1];
  it('is near nothing while timers come in time', async () => {
    const { registry, histogram } = histogramOf(bounds);
    let due = 20;
    for (const now of [20.5, 39.9, 60.1]) due = observeDue(histogram, due, now);
    expect(due).toBe(80);
    expect((await scraped(registry)).value('h_bucket', { le: '0.001' })).toBe(3);
  });

  it('counts everything that was due while the loop was held up', async () => {
    const { registry, histogram } = histogramOf(bounds);
    // Due at 20, 40, 60, 80 and 100, all seen at 110: late by 90, 70, 50, 30 and 10 ms.
    expect(observeDue(histogram, 20, 110)).toBe(120);
    const metrics = await scraped(registry);
    expect(metrics.value('h_count')).toBe(5);
    expect(metrics.value('h_sum')).toBeCloseTo(0.25, 9);
    expect(metrics.value('h_bucket', { le: '0.025' })).toBe(1);
    expect(metrics.value('h_bucket', { le: '0.05' })).toBe(3);
    expect(metrics.value('h_bucket', { le: '0.1' })).toBe(5);
  });
});
