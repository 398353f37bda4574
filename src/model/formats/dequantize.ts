/**
 * Stored weights to f32. The results equal ggml's own dequantization bit for bit: products of a scale and a quant are
 * exact in f64 and so is their sum with a minimum, so that the only rounding is the last, to f32.
 */
import type { ElementType } from './checkpoint.js';

const BLOCK = 32;
let halves: Float32Array | undefined;

/** f32 values of all 65,536 fp16 bit patterns. */
function halfTable(): Float32Array {
  if (halves !== undefined) return halves;
  const table = new Float32Array(1 << 16);
  for (let bits = 0; bits < table.length; bits++) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 0x1f;
    const fraction = bits & 0x3ff;
    if (exponent === 0) table[bits] = sign * fraction * 2 ** -24;
    else if (exponent === 31) table[bits] = fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
    else table[bits] = sign * (1024 + fraction) * 2 ** (exponent - 25);
  }
  halves = table;
  return table;
}

/**
 * Fills `out` from `bytes`, which hold out.length elements of `type` in whole blocks; layouts of the blocks are those
 * of ggml-common.h.
 */
export function dequantize(type: ElementType, bytes: Uint8Array, out: Float32Array): void {
  switch (type) {
    case 'F32':
      new Uint8Array(out.buffer, out.byteOffset, out.byteLength).set(bytes);
      break;
    case 'F16':
      dequantizeF16(bytes, out);
      break;
    case 'BF16':
      dequantizeBF16(bytes, out);
      break;
    case 'Q8_0':
      dequantizeQ8_0(bytes, out);
      break;
    case 'Q4_0':
      dequantizeQ4_0(bytes, out);
      break;
    case 'Q4_1':
      dequantizeQ4_1(bytes, out);
      break;
  }
}

function dequantizeF16(bytes: Uint8Array, out: Float32Array): void {
  const half = halfTable();
  for (let i = 0, p = 0; i < out.length; i++, p += 2) out[i] = half[bytes[p]! | (bytes[p + 1]! << 8)]!;
}

/** The upper half of an f32. */
function dequantizeBF16(bytes: Uint8Array, out: Float32Array): void {
  const bits = new Uint32Array(out.buffer, out.byteOffset, out.length);
  for (let i = 0, p = 0; i < bits.length; i++, p += 2) bits[i] = (bytes[p]! << 16) | (bytes[p + 1]! << 24);
}

/** d (fp16), 32 signed bytes q: d * q. */
function dequantizeQ8_0(bytes: Uint8Array, out: Float32Array): void {
  const half = halfTable();
  const quants = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let i = 0, p = 0; i < out.length; i += BLOCK, p += 34) {
    const scale = half[bytes[p]! | (bytes[p + 1]! << 8)]!;
    for (let j = 0; j < BLOCK; j++) out[i + j] = scale * quants[p + 2 + j]!;
  }
}

/** d (fp16), 16 bytes: element j in the low nibble of byte j, element j + 16 in the high one: d * (q - 8). */
function dequantizeQ4_0(bytes: Uint8Array, out: Float32Array): void {
  const half = halfTable();
  for (let i = 0, p = 0; i < out.length; i += BLOCK, p += 18) {
    const scale = half[bytes[p]! | (bytes[p + 1]! << 8)]!;
    for (let j = 0; j < 16; j++) {
      const pair = bytes[p + 2 + j]!;
      out[i + j] = scale * ((pair & 15) - 8);
      out[i + j + 16] = scale * ((pair >> 4) - 8);
    }
  }
}

/** d and m (fp16), nibbles as in Q4_0: d * q + m. */
function dequantizeQ4_1(bytes: Uint8Array, out: Float32Array): void {
  const half = halfTable();
  for (let i = 0, p = 0; i < out.length; i += BLOCK, p += 20) {
    const scale = half[bytes[p]! | (bytes[p + 1]! << 8)]!;
    const minimum = half[bytes[p + 2]! | (bytes[p + 3]! << 8)]!;
    for (let j = 0; j < 16; j++) {
      const pair = bytes[p + 4 + j]!;
      out[i + j] = scale * (pair & 15) + minimum;
      out[i + j + 16] = scale * (pair >> 4) + minimum;
    }
  }
}
