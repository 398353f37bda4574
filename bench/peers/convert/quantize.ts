/** Weights to ggml's blocks of 32, as quantize_row_q4_0_ref and quantize_row_q8_0_ref of ggml-quants.c make them, in f32. */
import { toFloat16 } from '../../../src/model/float16.js';

export type QuantizedType = 'Q4_0' | 'Q8_0';

const BLOCK = 32;

/** Each block: the scale d in fp16, then what `encode` writes of x / d for its 32 elements. */
function quantizeBlocks(
  values: Float32Array,
  quantBytes: number,
  scaleOf: (block: Float32Array) => number,
  encode: (block: Float32Array, inverse: number, out: Uint8Array) => void,
): Uint8Array {
  const stride = 2 + quantBytes;
  const count = values.length / BLOCK;
  const out = new Uint8Array(count * stride);
  const scales = new Float32Array(count);
  for (let b = 0; b < count; b++) {
    const block = values.subarray(b * BLOCK, (b + 1) * BLOCK);
    const scale = Math.fround(scaleOf(block));
    scales[b] = scale;
    encode(block, scale === 0 ? 0 : Math.fround(1 / scale), out.subarray(b * stride + 2, (b + 1) * stride));
  }
  for (const [b, half] of toFloat16(scales).entries()) {
    out[b * stride] = half & 0xff;
    out[b * stride + 1] = half >> 8;
  }
  return out;
}

/** The element farthest from zero becomes -8, so that the scale has its sign turned round. */
function quantizeQ4(values: Float32Array): Uint8Array {
  return quantizeBlocks(
    values,
    BLOCK / 2,
    (block) => block.reduce((most, value) => (Math.abs(value) > Math.abs(most) ? value : most), 0) / -8,
    (block, inverse, out) => {
      const quant = (value: number): number =>
        Math.min(15, Math.trunc(Math.fround(Math.fround(value * inverse) + 8.5)));
      for (let j = 0; j < BLOCK / 2; j++) out[j] = quant(block[j]!) | (quant(block[j + BLOCK / 2]!) << 4);
    },
  );
}

function quantizeQ8(values: Float32Array): Uint8Array {
  return quantizeBlocks(
    values,
    BLOCK,
    (block) => block.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127,
    (block, inverse, out) => {
      for (let j = 0; j < BLOCK; j++) {
        const scaled = Math.fround(block[j]! * inverse);
        out[j] = Math.sign(scaled) * Math.floor(Math.abs(scaled) + 0.5);
      }
    },
  );
}

/** f32 rows of whole blocks to bytes. */
export const QUANTIZERS: Readonly<Record<QuantizedType, (values: Float32Array) => Uint8Array>> = {
  Q4_0: quantizeQ4,
  Q8_0: quantizeQ8,
};
