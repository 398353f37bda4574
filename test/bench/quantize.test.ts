import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { QUANTIZERS } from '../../bench/peers/convert/quantize.js';
import { dequantize } from '../../src/model/formats/dequantize.js';

function roundTrip(type: 'Q4_0' | 'Q8_0', values: readonly number[]): Float32Array {
  const out = new Float32Array(values.length);
  dequantize(type, QUANTIZERS[type](Float32Array.from(values)), out);
  return out;
}

const block = fc.array(fc.float({ min: -8, max: 8, noNaN: true }), { minLength: 32, maxLength: 32 });

describe('blocks of 32 weights', () => {
  it('lays out Q4_0 as a scale and nibbles, the two halves of a block side by side', () => {
    const values = new Float32Array(32);
    values[0] = -8;
    values[1] = 3;
    values[16] = 7;
    const bytes = QUANTIZERS.Q4_0(values);
    // The scale is 1 (0x3c00); -8 is 0, 0 is 8, 3 is 11, 7 is 15.
    expect([...bytes]).toEqual([0x00, 0x3c, 0xf0, 0x8b, ...Array.from({ length: 14 }, () => 0x88)]);
  });

  it('turns the scale of Q4_0 round when the farthest value is positive', () => {
    const values = new Float32Array(32);
    values[0] = 16;
    values[1] = -14;
    const bytes = QUANTIZERS.Q4_0(values);
    expect([...bytes.subarray(0, 4)]).toEqual([0x00, 0xc0, 0x80, 0x8f]);
  });

  it('rounds halves of Q8_0 away from zero', () => {
    const values = new Float32Array(32);
    values.set([127, 2.5, -2.5, 0.4]);
    expect([...QUANTIZERS.Q8_0(values).subarray(0, 6)]).toEqual([0x00, 0x3c, 127, 3, 256 - 3, 0]);
  });

  it('keeps blocks of zeros', () => {
    for (const type of ['Q4_0', 'Q8_0'] as const) {
      expect(roundTrip(type, new Array(64).fill(0)).every((value) => value === 0)).toBe(true);
    }
  });

  it('stays within a step of the grid, and half a step where the grid reaches', () => {
    fc.assert(
      fc.property(block, (values) => {
        const most = Math.max(...values.map(Math.abs));
        // The scale itself is rounded to fp16: 2^-11 of the value, or half the smallest half times the quant.
        const scaleError = (quants: number) => most * 2 ** -11 + quants * 2 ** -25;
        const four = roundTrip('Q4_0', values);
        const eight = roundTrip('Q8_0', values);
        for (const [i, value] of values.entries()) {
          expect(Math.abs(four[i]! - value)).toBeLessThanOrEqual((most / 8) * 1.001 + scaleError(8));
          expect(Math.abs(eight[i]! - value)).toBeLessThanOrEqual((most / 127 / 2) * 1.001 + scaleError(127));
        }
        const farthest = values.findIndex((value) => Math.abs(value) === most);
        expect(Math.abs(four[farthest]! - values[farthest]!)).toBeLessThanOrEqual(scaleError(8));
      }),
    );
  });
});
