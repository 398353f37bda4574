import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BLOCK_LENGTH, dequantizeBlocks, quantizeBlocks } from '../../../src/model/backends/block-quantize.js';
import { fromFloat16, toFloat16 } from '../../../src/model/float16.js';

const blocks = fc
  .array(fc.float({ min: -8, max: 8, noNaN: true }), { minLength: BLOCK_LENGTH, maxLength: 3 * BLOCK_LENGTH })
  .map((values) => Float32Array.from(values.slice(0, values.length - (values.length % BLOCK_LENGTH))));

describe.each([8, 4] as const)('blocks of %i bits', (bits) => {
  it('are off by at most half a step, or a step where the range ends', () => {
    fc.assert(
      fc.property(blocks, (matrix) => {
        const quantized = quantizeBlocks(matrix, bits);
        const back = dequantizeBlocks(quantized, bits);
        const scales = fromFloat16(quantized.scales);
        matrix.forEach((x, i) => {
          const step = Math.abs(scales[Math.floor(i / BLOCK_LENGTH)]!);
          // The scale is rounded to a half, and 4 bits have no +8.
          const bound = bits === 8 ? 0.5 * step + 1e-3 * Math.abs(x) : step + 1e-3 * Math.abs(x);
          expect(Math.abs(back[i]! - x)).toBeLessThanOrEqual(bound + 2 ** -17);
        });
      }),
    );
  });

  it('take what was quantized that way already without a loss', () => {
    const levels = 1 << bits;
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: bits === 8 ? -127 : -8, max: levels / 2 - 1 }), {
          minLength: BLOCK_LENGTH - 1,
          maxLength: BLOCK_LENGTH - 1,
        }),
        fc.float({ min: Math.fround(0.001), max: 4, noNaN: true }),
        (quants, d) => {
          const scale = fromFloat16(toFloat16(Float32Array.of(d)))[0]!;
          // One element is at the end of the range, as quantizers choose their scale.
          const matrix = Float32Array.from([bits === 8 ? -127 : -8, ...quants], (q) => q * scale);
          expect(dequantizeBlocks(quantizeBlocks(matrix, bits), bits)).toEqual(matrix);
        },
      ),
    );
  });

  it('keep a block of zeros', () => {
    const zeros = new Float32Array(BLOCK_LENGTH);
    expect(dequantizeBlocks(quantizeBlocks(zeros, bits), bits).every((x) => x === 0)).toBe(true);
  });
});

it('lies as the operator reads it: low half first, offset by half the range', () => {
  const matrix = Float32Array.from({ length: BLOCK_LENGTH }, (_, i) => (i === 0 ? -8 : i % 8));
  const { quants, scales } = quantizeBlocks(matrix, 4);
  expect([...fromFloat16(scales)]).toEqual([1]);
  expect([...quants.subarray(0, 4)]).toEqual([0x90, 0xba, 0xdc, 0xfe]);
});
