/** Blocks made by hand after ggml-common.h and ggml-quants.c. */
import { describe, expect, it } from 'vitest';
import { dequantize } from '../../../src/model/formats/dequantize.js';

const ONE = [0x00, 0x3c];
const HALF = [0x00, 0x38];
const MINUS_TWO = [0x00, 0xc0];

describe('dequantize', () => {
  it('keeps F32 bits', () => {
    const values = Float32Array.of(1.5, -0, 3.4e38, Number.NEGATIVE_INFINITY);
    const out = new Float32Array(4);
    dequantize('F32', new Uint8Array(values.buffer), out);
    expect(new Uint32Array(out.buffer)).toEqual(new Uint32Array(values.buffer));
  });

  it.each([
    [0x3c00, 1],
    [0xc000, -2],
    [0x7bff, 65504],
    [0x3555, 0.333251953125],
    [0x0001, 2 ** -24],
    [0x83ff, -1023 * 2 ** -24],
    [0x0400, 2 ** -14],
    [0x0000, 0],
    [0x8000, -0],
    [0x7c00, Number.POSITIVE_INFINITY],
    [0xfc00, Number.NEGATIVE_INFINITY],
    [0x7e01, Number.NaN],
  ])('reads F16 %i', (bits, value) => {
    const out = new Float32Array(1);
    dequantize('F16', Uint8Array.of(bits & 255, bits >> 8), out);
    expect(out[0]).toBe(value);
  });

  it('reads BF16 as the upper half of an F32', () => {
    const out = new Float32Array(3);
    dequantize('BF16', Uint8Array.of(0x80, 0x3f, 0x49, 0xc0, 0x00, 0xff), out);
    expect([...out]).toEqual([1, -3.140625, -(2 ** 127)]);
  });

  it('reads Q8_0: a scale and 32 signed bytes', () => {
    const quants = Array.from({ length: 32 }, (_, i) => (i * 17) % 256);
    const out = new Float32Array(32);
    dequantize('Q8_0', Uint8Array.of(...HALF, ...quants), out);
    expect([...out]).toEqual(quants.map((quant) => 0.5 * (quant > 127 ? quant - 256 : quant)));
  });

  it('reads Q4_0: low nibbles first, then high ones, 8 subtracted', () => {
    const pairs = Array.from({ length: 16 }, (_, i) => i | ((15 - i) << 4));
    const out = new Float32Array(32);
    dequantize('Q4_0', Uint8Array.of(...MINUS_TWO, ...pairs), out);
    const low = Array.from({ length: 16 }, (_, i) => -2 * (i - 8));
    expect([...out]).toEqual([...low, ...low.toReversed()]);
  });

  it('reads Q4_1: a scale, a minimum, nibbles as in Q4_0', () => {
    const pairs = Array.from({ length: 16 }, (_, i) => i | (((i * 7) & 15) << 4));
    const out = new Float32Array(64);
    dequantize('Q4_1', Uint8Array.of(...HALF, ...MINUS_TWO, ...pairs, ...ONE, ...HALF, ...pairs), out);
    const quants = [...pairs.map((pair) => pair & 15), ...pairs.map((pair) => pair >> 4)];
    expect([...out]).toEqual([...quants.map((quant) => 0.5 * quant - 2), ...quants.map((quant) => quant + 0.5)]);
  });

  it('reads from any place in a buffer and into a part of an array', () => {
    const block = [...ONE, ...Array.from({ length: 32 }, (_, i) => i)];
    const bytes = Uint8Array.of(99, 99, 99, ...block, 99).subarray(3, 37);
    const out = new Float32Array(40).fill(-1);
    dequantize('Q8_0', bytes, out.subarray(4, 36));
    expect([...out]).toEqual([-1, -1, -1, -1, ...Array.from({ length: 32 }, (_, i) => i), -1, -1, -1, -1]);
  });
});
