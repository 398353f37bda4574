import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FLOAT16_MAX, fromFloat16, isWithinFloat16, toFloat16 } from '../../src/model/float16.js';

const half = (value: number) => toFloat16(Float32Array.of(value))[0]!;
const value = (bits: number) => fromFloat16(Uint16Array.of(bits))[0]!;

describe('half precision', () => {
  it('knows the landmarks of the format', () => {
    const landmarks: [number, number][] = [
      [0, 0x0000],
      [-0, 0x8000],
      [1, 0x3c00],
      [-2, 0xc000],
      [1 / 3, 0x3555],
      [FLOAT16_MAX, 0x7bff],
      [2 ** -14, 0x0400],
      [2 ** -24, 0x0001],
      [Number.POSITIVE_INFINITY, 0x7c00],
      [Number.NEGATIVE_INFINITY, 0xfc00],
    ];
    for (const [number, bits] of landmarks) expect([number, half(number)]).toEqual([number, bits]);
    expect(value(half(Number.NaN))).toBeNaN();
  });

  it('keeps every half', () => {
    const all = Uint16Array.from({ length: 1 << 16 }, (_, bits) => bits).filter((bits) => !Number.isNaN(value(bits)));
    expect(toFloat16(fromFloat16(all))).toEqual(all);
  });

  it('rounds to the nearest, ties to even', () => {
    fc.assert(
      fc.property(fc.float({ min: -65519, max: 65519, noNaN: true }), (x) => {
        const bits = half(x);
        const error = Math.abs(value(bits) - x);
        for (const neighbour of [bits - 1, bits + 1]) {
          if ((neighbour & 0x7fff) >= 0x7c00 || (neighbour ^ bits) & 0x8000) continue;
          const other = Math.abs(value(neighbour) - x);
          expect(error).toBeLessThanOrEqual(other);
          if (error === other) expect(bits & 1).toBe(0);
        }
      }),
      { numRuns: 5000 },
    );
  });

  it('tells what does not fit', () => {
    expect(isWithinFloat16(Float32Array.of(65519, -65504))).toBe(true);
    for (const x of [65520, -1e6, Number.NaN, Number.NEGATIVE_INFINITY]) {
      expect(isWithinFloat16(Float32Array.of(1, x))).toBe(false);
    }
    expect(value(half(65520))).toBe(Number.POSITIVE_INFINITY);
  });
});
