/**
 * Symmetric block quantization of weight matrices as com.microsoft.MatMulNBits takes it without zero points: blocks of
 * 32 neighbours along the input axis share an fp16 scale; an element is scale * (q - 2^(bits - 1)).
 *
 * The scales are chosen as llama.cpp chooses those of Q8_0 and Q4_0, so that checkpoints in these types come through
 * without a further loss.
 */
import { fromFloat16, toFloat16 } from '../float16.js';

export const BLOCK_LENGTH = 32;

export interface BlockQuantized {
  /** u8 [outputs, inputs / 32, 4 * bits]; of 4 bits, element 2i of a block is the low half of byte i. */
  readonly quants: Uint8Array;
  /** fp16 [outputs, inputs / 32] */
  readonly scales: Uint16Array;
}

/** Quantizes a row-major matrix whose rows are whole blocks of `length`. */
export function quantizeBlocks(matrix: Float32Array, bits: 4 | 8, length = BLOCK_LENGTH): BlockQuantized {
  const blocks = matrix.length / length;
  const wanted = new Float32Array(blocks);
  for (let b = 0; b < blocks; b++) {
    const largest = largestMagnitude(matrix, b * length, length);
    // 8 bits reach from -127 to 127; 4 bits from -8 to 7, so that the largest magnitude becomes -8 whatever its sign.
    wanted[b] = bits === 8 ? Math.abs(largest) / 127 : largest / -8;
  }
  const scales = toFloat16(wanted);
  const applied = fromFloat16(scales);

  const quants = new Uint8Array((matrix.length * bits) / 8);
  const offset = 1 << (bits - 1);
  const highest = 2 * offset - 1;
  for (let b = 0; b < blocks; b++) {
    const scale = applied[b]!;
    const inverse = scale === 0 ? 0 : 1 / scale;
    const start = b * length;
    for (let i = 0; i < length; i++) {
      const q = Math.min(highest, Math.max(0, Math.round(matrix[start + i]! * inverse) + offset));
      if (bits === 8) quants[start + i] = q;
      else quants[(start + i) >> 1]! |= (i & 1) === 0 ? q : q << 4;
    }
  }
  return { quants, scales };
}

/** The matrix that the device computes with. */
export function dequantizeBlocks({ quants, scales }: BlockQuantized, bits: 4 | 8): Float32Array {
  const applied = fromFloat16(scales);
  const matrix = new Float32Array(scales.length * BLOCK_LENGTH);
  const offset = 1 << (bits - 1);
  for (let b = 0; b < applied.length; b++) {
    const scale = applied[b]!;
    const start = b * BLOCK_LENGTH;
    for (let i = start; i < start + BLOCK_LENGTH; i++) {
      const q = bits === 8 ? quants[i]! : (quants[i >> 1]! >> ((i & 1) * 4)) & 0xf;
      matrix[i] = scale * (q - offset);
    }
  }
  return matrix;
}

/** The element of a block that is farthest from 0, with its sign. */
function largestMagnitude(matrix: Float32Array, start: number, length: number): number {
  let largest = 0;
  for (let i = start; i < start + length; i++) {
    const value = matrix[i]!;
    if (Math.abs(value) > Math.abs(largest)) largest = value;
  }
  return largest;
}
