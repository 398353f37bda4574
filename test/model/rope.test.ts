import { describe, expect, it } from 'vitest';
import { baseFrequencies, ropeTables, scaleAsLlama3, scaleLinearly } from '../../src/model/rope.js';

describe('frequencies', () => {
  it('fall from 1 by a constant ratio', () => {
    const frequencies = baseFrequencies(10_000, 8);
    [1, 0.1, 0.01, 0.001].forEach((value, i) => {
      expect(frequencies[i]).toBeCloseTo(value, 12);
    });
  });

  it('are divided by a linear factor', () => {
    expect([...scaleLinearly(Float64Array.of(1, 0.5), 8)]).toEqual([0.125, 0.0625]);
  });

  it('of Llama 3.1 keep fast pairs, slow the slow ones down and blend between', () => {
    const scaling = { factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalMaxPositions: 8192 };
    const turns = [5, 4, 2.5, 1, 0.5];
    const frequencies = Float64Array.from(turns, (n) => (2 * Math.PI * n) / 8192);
    const ratios = [...scaleAsLlama3(frequencies, scaling)].map((value, i) => value / frequencies[i]!);
    [1, 1, 0.5 / 8 + 0.5, 1 / 8, 1 / 8].forEach((ratio, i) => {
      expect(ratios[i]).toBeCloseTo(ratio, 12);
    });
  });
});

describe('tables', () => {
  it('hold cos and sin of position times frequency, times the attention factor', () => {
    const spec = { dimensions: 4, inverseFrequencies: Float64Array.of(1, 0.01), attentionFactor: 2 };
    const { cos, sin } = ropeTables(spec, 3);
    expect(cos).toEqual(
      Float32Array.from([2, 2, 2 * Math.cos(1), 2 * Math.cos(0.01), 2 * Math.cos(2), 2 * Math.cos(0.02)]),
    );
    expect(sin).toEqual(
      Float32Array.from([0, 0, 2 * Math.sin(1), 2 * Math.sin(0.01), 2 * Math.sin(2), 2 * Math.sin(0.02)]),
    );
  });

  it('stay exact at late positions', () => {
    const spec = { dimensions: 2, inverseFrequencies: Float64Array.of(1), attentionFactor: 1 };
    expect(ropeTables(spec, 131_072).cos.at(-1)).toBe(Math.fround(Math.cos(131_071)));
  });
});
