import { describe, expect, it } from 'vitest';
import { drawLength, parseLengths } from '../../src/loadgen/lengths.js';
import { arrivalTimes, loadLabel, type OpenLoad, parseConcurrencies, parseRates } from '../../src/loadgen/load.js';
import { randomSource } from '../../src/loadgen/random.js';
import { meetsSlo, parseSlo } from '../../src/loadgen/slo.js';
import { statistics } from '../../src/loadgen/stats.js';
import { parseDuration } from '../../src/loadgen/units.js';

function gapsOf(load: OpenLoad, count: number, seed = 1): number[] {
  const times = arrivalTimes(load, randomSource(seed, 'arrivals'));
  let before = 0;
  return Array.from({ length: count }, () => {
    const { value } = times.next();
    const gap = value - before;
    before = value;
    return gap;
  });
}

/** Standard deviation over mean. */
function variation(samples: readonly number[]): number {
  const mean = samples.reduce((sum, value) => sum + value, 0) / samples.length;
  const variance = samples.reduce((sum, value) => sum + (value - mean) ** 2, 0) / samples.length;
  return Math.sqrt(variance) / mean;
}

describe('arrivals of an open load', () => {
  const poisson: OpenLoad = { kind: 'open', rate: 5, arrival: { kind: 'poisson' } };

  it('of a Poisson process come at the rate, with exponential gaps', () => {
    const gaps = gapsOf(poisson, 20_000);
    expect(statistics(gaps)!.mean).toBeCloseTo(200, -1);
    expect(variation(gaps)).toBeCloseTo(1, 1);
    // A memoryless process: e^-1 of all gaps are longer than the mean.
    expect(gaps.filter((gap) => gap > 200).length / gaps.length).toBeCloseTo(Math.exp(-1), 1);
  });

  it.each([0.25, 0.5, 4])('with burstiness %d keep the rate, and vary by 1 / sqrt of it', (burstiness) => {
    const gaps = gapsOf({ ...poisson, arrival: { kind: 'bursty', burstiness } }, 40_000);
    expect(statistics(gaps)!.mean / 200).toBeCloseTo(1, 1);
    expect(variation(gaps) * Math.sqrt(burstiness)).toBeCloseTo(1, 1);
  });

  it('are the same for the same seed, and others for another', () => {
    expect(gapsOf(poisson, 10, 3)).toEqual(gapsOf(poisson, 10, 3));
    expect(gapsOf(poisson, 10, 3)).not.toEqual(gapsOf(poisson, 10, 4));
  });

  it('all come at the start where the rate is infinite', () => {
    expect(gapsOf({ ...poisson, rate: Number.POSITIVE_INFINITY }, 5)).toEqual([0, 0, 0, 0, 0]);
  });
});

describe('the command line', () => {
  it('names loads', () => {
    expect(parseConcurrencies('1,4').map(loadLabel)).toEqual(['concurrency 1', 'concurrency 4']);
    expect(parseRates('0.5,inf', { kind: 'poisson' }).map(loadLabel)).toEqual(['0.5 req/s poisson', 'all at once']);
    expect(parseRates('2', { kind: 'bursty', burstiness: 0.3 }).map(loadLabel)).toEqual(['2 req/s bursty 0.3']);
  });

  it.each(['0', '1.5', 'x', '1,,2', '-1', ''])('refuses concurrency "%s"', (text) => {
    expect(() => parseConcurrencies(text)).toThrow(/whole number/);
  });

  it.each(['0', 'x', '1,', '-1', 'Infinity x'])('refuses request rate "%s"', (text) => {
    expect(() => parseRates(text, { kind: 'poisson' })).toThrow(/positive number/);
  });

  it('reads durations', () => {
    expect(['200ms', '1.5s', '2m', '1h', '50us', '3'].map((text) => parseDuration(text))).toEqual([
      200, 1500, 120_000, 3_600_000, 0.05, 3000,
    ]);
    for (const text of ['0s', '-1s', '1 s', 's', '1d', '']) expect(() => parseDuration(text)).toThrow(/not a duration/);
  });

  it('reads objectives, in milliseconds unless said otherwise', () => {
    expect(parseSlo('ttft:200ms,tpot:50,e2e:2s')).toEqual({ ttft: 200, tpot: 50, e2e: 2000 });
    expect(() => parseSlo('itl:5ms')).toThrow(/"itl:5ms"/);
    expect(() => parseSlo('ttft')).toThrow(/not a duration/);
  });

  it('keeps an objective up to its limit, and where the latency does not exist', () => {
    const slo = parseSlo('ttft:200ms,tpot:50ms');
    expect(meetsSlo(slo, { ttft: 200, tpot: 50 })).toBe(true);
    expect(meetsSlo(slo, { ttft: 200, tpot: undefined })).toBe(true);
    expect(meetsSlo(slo, { ttft: 200.1, tpot: 1 })).toBe(false);
    expect(meetsSlo(slo, { ttft: 1, tpot: 50.1 })).toBe(false);
  });
});

describe('lengths', () => {
  const draw = (text: string, count = 5000): number[] => {
    const random = randomSource(2, text);
    return Array.from({ length: count }, () => drawLength(parseLengths(text), random));
  };

  it('are fixed, uniform with both ends, or normal and at least 1', () => {
    expect(new Set(draw('128', 50))).toEqual(new Set([128]));
    expect(new Set(draw('3-6'))).toEqual(new Set([3, 4, 5, 6]));
    const normal = draw('normal:200,40');
    expect(statistics(normal)!.mean / 200).toBeCloseTo(1, 1);
    expect(variation(normal)).toBeCloseTo(0.2, 1);
    expect(Math.min(...draw('normal:2,30'))).toBe(1);
    const long = draw('lognormal:200,0.8').sort((a, b) => a - b);
    expect(Math.abs(long[Math.floor(long.length / 2)]! / 200 - 1)).toBeLessThan(0.15);
    // A hundredth is beyond exp(2.33 * 0.8) times the median.
    expect(Math.abs(long[Math.floor(long.length * 0.99)]! / (200 * Math.exp(2.326 * 0.8)) - 1)).toBeLessThan(0.4);
  });

  it.each(['0', '5-3', 'normal:0,1', 'normal:5', 'lognormal:0,1', 'x', '1.5', ''])('refuses "%s"', (text) => {
    expect(() => parseLengths(text)).toThrow(/not a length/);
  });
});
