import { describe, expect, it } from 'vitest';
import type { EngineStats } from '../../src/engine/protocol.js';
import { randomSource } from '../../src/loadgen/random.js';
import { calibrate } from '../../src/simulator/calibration.js';
import { fitWeights } from '../../src/simulator/fit.js';
import { parseStepTimes, stepTime, TERMS, termsOf } from '../../src/simulator/step-time.js';

describe('a fit', () => {
  const random = randomSource(3, 'fit');
  const sample = () => [1, random() * 60, random() * 500, random() * 20_000];
  const sum = (terms: readonly number[], weights: readonly number[]) =>
    terms.reduce((total, term, i) => total + term * weights[i]!, 0);

  it('finds the weights that values were made of', () => {
    const weights = [900, 40, 7, 0.02];
    const measurements = Array.from({ length: 200 }, sample).map((terms) => ({ terms, value: sum(terms, weights) }));
    const fit = fitWeights(measurements);
    fit.weights.forEach((weight, i) => {
      expect(weight / weights[i]!).toBeCloseTo(1, 3);
    });
    expect(fit.error).toBeLessThan(1e-4);
  });

  it('is right on average where values scatter, up more than down', () => {
    const weights = [500, 100, 5, 0];
    const measurements = Array.from({ length: 4000 }, sample).map((terms) => {
      // Mean 1.3, most below it: now and then something else has the processor.
      const factor = random() < 0.1 ? 3 + random() * 2 : 0.95 + random() * 0.1;
      return { terms, value: sum(terms, weights) * factor };
    });
    const fit = fitWeights(measurements);
    const measured = measurements.reduce((total, { value }) => total + value, 0);
    const predicted = measurements.reduce((total, { terms }) => total + sum(terms, fit.weights), 0);
    expect(predicted / measured).toBeGreaterThan(0.97);
    expect(predicted / measured).toBeLessThan(1.03);
  });

  it('never gives a weight below 0', () => {
    const measurements = Array.from({ length: 100 }, sample).map((terms) => ({
      terms,
      value: Math.max(1, 10_000 - terms[1]! * 50 + terms[2]!),
    }));
    for (const weight of fitWeights(measurements).weights) expect(weight).toBeGreaterThanOrEqual(0);
  });
});

describe('step times', () => {
  const microseconds = [1000, 200, 100, 50, 20, 10, 0.1, 0.01];
  const times = { description: 'made up', microseconds, mixedSteps: true };

  it('are a sum of what a step computes', () => {
    const work = { prefillTokens: 100, decodeTokens: 8, decodePairs: 4000, prefillPairs: 4950 };
    expect(termsOf(work)).toEqual([1, 4, 16, 64, 108, 8, 4000, 4950]);
    expect(stepTime(work, times)).toBeCloseTo((1000 + 800 + 1600 + 3200 + 2160 + 80 + 400 + 49.5) / 1e6, 12);
  });

  it('are read from a file of this version only', () => {
    expect(parseStepTimes(JSON.stringify(times), 'f')).toEqual(times);
    const wrong = [
      JSON.stringify({ ...times, mixedSteps: undefined }),
      'x',
      '{}',
      'null',
      JSON.stringify({ ...times, microseconds: [1] }),
    ];
    wrong.push(JSON.stringify({ ...times, microseconds: microseconds.map(() => -1) }));
    for (const text of wrong) expect(() => parseStepTimes(text, 'times.json')).toThrow('times.json');
  });

  it('come from steps that followed each other at once', () => {
    const stats: EngineStats[] = [];
    let time = 100;
    for (let i = 0; i < 300; i++) {
      const [prefillTokens, decodeTokens] = [i % 3 === 0 ? (i * 13) % 300 : 0, 1 + (i % 40)];
      const work = { prefillTokens, decodeTokens, decodePairs: decodeTokens * ((i * 7) % 200), prefillPairs: i * 17 };
      const idle = i % 10 === 0;
      time += stepTime(work, times) + (idle ? 5 : 0);
      const rest = { blocksUsed: 0, blocksTotal: 1, emptySlots: 0, preemptions: 0, prefixQueries: 0, prefixHits: 0 };
      const parts = { scheduleTime: 0, modelTime: 0, sampleTime: 0 };
      // After each tenth step the engine has nothing to do for five seconds.
      const running = i % 10 === 9 ? 0 : 5;
      stats.push({ ...work, ...rest, ...parts, time, running, waiting: 0, sequences: 3, steps: i + 1 });
    }
    const calibration = calibrate(stats, { description: 'here', mixedSteps: false });
    expect(calibration.times).toMatchObject({ description: 'here', mixedSteps: false });
    expect(calibration.steps).toBe(270);
    expect(calibration.error).toBeLessThan(0.01);
    expect(calibration.times.microseconds).toHaveLength(TERMS.length);
    const work = { prefillTokens: 50, decodeTokens: 10, decodePairs: 900, prefillPairs: 1225 };
    expect(stepTime(work, calibration.times) / stepTime(work, times)).toBeCloseTo(1, 1);
  });
});
