/** Asymmetric 4-bit blocks as com.microsoft.MatMulNBits takes them: an element is scale * (q - zero point). */

export interface AsymmetricBlocks {
  /** u8 [outputs, blocks, length / 2]; element 2i of a block is the low half of byte i. */
  readonly quants: Uint8Array;
  /** f32 [outputs, blocks] */
  readonly scales: Float32Array;
  /** u8 [outputs, ceil(blocks / 2)], packed like the elements. */
  readonly zeroPoints: Uint8Array;
}

/** Scales tried for a block, as parts of the one that spans its range. */
const SCALES = [0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1];

/**
 * Quantizes a row-major matrix [outputs, inputs] in blocks of `length` inputs, each with the scale and whole zero point of
 * least squared error among a few.
 */
export function quantizeAsymmetric(matrix: Float32Array, inputs: number, length: number): AsymmetricBlocks {
  const blocksPerRow = inputs / length;
  const outputs = matrix.length / inputs;
  const packed = Math.ceil(blocksPerRow / 2);
  const quants = new Uint8Array(matrix.length / 2);
  const scales = new Float32Array(outputs * blocksPerRow);
  const zeroPoints = new Uint8Array(outputs * packed);
  for (let o = 0; o < outputs; o++) {
    for (let b = 0; b < blocksPerRow; b++) {
      const start = o * inputs + b * length;
      const { scale, zero } = fitBlock(matrix, start, length);
      scales[o * blocksPerRow + b] = scale;
      zeroPoints[o * packed + (b >> 1)]! |= (b & 1) === 0 ? zero : zero << 4;
      for (let i = start; i < start + length; i++) {
        const q = quantize(matrix[i]!, scale, zero);
        quants[i >> 1]! |= (i & 1) === 0 ? q : q << 4;
      }
    }
  }
  return { quants, scales, zeroPoints };
}

function quantize(value: number, scale: number, zero: number): number {
  return scale === 0 ? zero : Math.min(15, Math.max(0, Math.round(value / scale) + zero));
}

function fitBlock(matrix: Float32Array, start: number, length: number): { scale: number; zero: number } {
  let low = 0;
  let high = 0;
  for (let i = start; i < start + length; i++) {
    low = Math.min(low, matrix[i]!);
    high = Math.max(high, matrix[i]!);
  }
  const span = (high - low) / 15;
  if (span === 0) return { scale: 0, zero: 8 };
  let best = { scale: span, zero: 0 };
  let least = Number.POSITIVE_INFINITY;
  for (const part of SCALES) {
    const scale = span * part;
    const exact = -low / scale;
    for (const zero of [Math.floor(exact), Math.ceil(exact)]) {
      if (zero < 0 || zero > 15) continue;
      let error = 0;
      for (let i = start; i < start + length && error < least; i++) {
        const difference = matrix[i]! - scale * (quantize(matrix[i]!, scale, zero) - zero);
        error += difference * difference;
      }
      if (error >= least) continue;
      least = error;
      best = { scale, zero };
    }
  }
  return best;
}
