/** Half-precision numbers (IEEE 754 binary16) as bit patterns, which is how ONNX Runtime takes them in Node 20. */

/** Largest finite half. */
export const FLOAT16_MAX = 65504;

/**
 * f32 to the nearest half, ties to even. Returns u16 [values.length]. Values beyond the range become infinite;
 * `isWithinFloat16` tells whether there are any.
 */
export function toFloat16(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const halves = new Uint16Array(values.length);
  for (let i = 0; i < bits.length; i++) {
    const x = bits[i]!;
    const sign = (x >>> 16) & 0x8000;
    const magnitude = x & 0x7fffffff;
    let half: number;
    if (magnitude >= 0x47800000) {
      // 2^16 and above, infinities and NaN
      half = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    } else if (magnitude >= 0x38800000) {
      // normal halves: rebias the exponent by 127 - 15 and round off 13 bits; a carry runs into the exponent
      half = (magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13;
    } else if (magnitude >= 0x33000000) {
      // subnormal halves: the significand with its hidden bit, shifted to units of 2^-24
      const shift = 126 - (magnitude >>> 23);
      const significand = (magnitude & 0x7fffff) | 0x800000;
      half = significand >>> shift;
      const rest = significand & ((1 << shift) - 1);
      const middle = 1 << (shift - 1);
      if (rest > middle || (rest === middle && (half & 1) === 1)) half++;
    } else {
      half = 0;
    }
    halves[i] = sign | half;
  }
  return halves;
}

/** Whether every value keeps its size when rounded to a half; NaN does not. */
export function isWithinFloat16(values: Float32Array): boolean {
  for (let i = 0; i < values.length; i++) {
    // 65520 is the middle between the largest half and 2^16, and rounds to infinity.
    if (!(Math.abs(values[i]!) < 65520)) return false;
  }
  return true;
}

let table: Float32Array | undefined;

/** Halves to f32, exactly. Returns f32 [halves.length]. */
export function fromFloat16(halves: Uint16Array): Float32Array {
  table ??= Float32Array.from({ length: 1 << 16 }, (_, bits) => {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 0x1f;
    const fraction = bits & 0x3ff;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
    return sign * (1024 + fraction) * 2 ** (exponent - 25);
  });
  const values = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) values[i] = table[halves[i]!]!;
  return values;
}
