/** Symmetric 8-bit quantization of weight matrices. */

/**
 * Quantizes each output of matrix [outputs, inputs] with its own scale and transposes it, as integer products want it:
 * values s8 [inputs, outputs], scales f32 [outputs], matrix[o][i] ≈ values[i][o] * scales[o].
 */
export function quantizeColumns(
  matrix: Float32Array,
  outputs: number,
  inputs: number,
): { values: Int8Array; scales: Float32Array } {
  const values = new Int8Array(matrix.length);
  const scales = new Float32Array(outputs);
  const inverse = new Float32Array(outputs);
  for (let o = 0; o < outputs; o++) {
    let max = 0;
    for (let i = o * inputs; i < (o + 1) * inputs; i++) max = Math.max(max, Math.abs(matrix[i] as number));
    scales[o] = max / 127;
    inverse[o] = max === 0 ? 0 : 127 / max;
  }
  // In tiles that stay in the cache, since one side of a transposition is always strided.
  const tile = 64;
  for (let o0 = 0; o0 < outputs; o0 += tile) {
    const oEnd = Math.min(outputs, o0 + tile);
    for (let i0 = 0; i0 < inputs; i0 += tile) {
      const iEnd = Math.min(inputs, i0 + tile);
      for (let i = i0; i < iEnd; i++) {
        for (let o = o0; o < oEnd; o++) {
          values[i * outputs + o] = Math.round((matrix[o * inputs + i] as number) * (inverse[o] as number));
        }
      }
    }
  }
  return { values, scales };
}
