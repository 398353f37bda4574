import { describe, expect, it } from 'vitest';
import {
  applyHadamardToColumns,
  applyHadamardToRows,
  powerOfTwoFactor,
  randomOrthogonal,
} from '../../../src/model/backends/cpu/hadamard.js';

describe('orthogonal matrices', () => {
  it('finds the power of two in a width', () => {
    expect([576, 64, 960, 7].map(powerOfTwoFactor)).toEqual([64, 64, 64, 1]);
  });

  it('applies the Hadamard matrix of order 2 in blocks', () => {
    const rows = Float32Array.of(1, 2, 3, 5);
    applyHadamardToRows(rows, 4, 2);
    const s = Math.SQRT1_2;
    [3 * s, -s, 8 * s, -2 * s].forEach((x, i) => {
      expect(rows[i]).toBeCloseTo(x, 6);
    });
  });

  it('is its own inverse along rows and columns', () => {
    const data = Float32Array.from({ length: 16 * 12 }, (_, i) => Math.sin(i));
    for (const apply of [
      (x: Float32Array) => applyHadamardToRows(x, 16, 16),
      (x: Float32Array) => applyHadamardToColumns(x, 12, 8),
    ]) {
      const copy = data.slice();
      apply(copy);
      expect(copy).not.toEqual(data);
      apply(copy);
      copy.forEach((x, i) => {
        expect(x).toBeCloseTo(data[i]!, 5);
      });
    }
  });

  it('refuses blocks that do not divide the data', () => {
    expect(() => applyHadamardToRows(new Float32Array(12), 6, 4)).toThrow(RangeError);
  });

  it.each([1, 2, 7, 15])('makes a random orthogonal matrix of %i', (size) => {
    const q = randomOrthogonal(size);
    for (let a = 0; a < size; a++) {
      for (let b = 0; b < size; b++) {
        let dot = 0;
        for (let i = 0; i < size; i++) dot += q[a * size + i]! * q[b * size + i]!;
        expect(dot).toBeCloseTo(a === b ? 1 : 0, 10);
      }
    }
  });
});
