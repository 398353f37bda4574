/** Orthogonal matrices that are cheap to apply: normalized Hadamard matrices (symmetric, their own inverse), and small random ones. */

/** The largest power of two that divides n. */
export function powerOfTwoFactor(n: number): number {
  return n & -n;
}

/** Multiplies each block of `block` consecutive elements of each row of data [rows, width] by the Hadamard matrix, in place. */
export function applyHadamardToRows(data: Float32Array, width: number, block: number): void {
  if (width % block !== 0) throw new RangeError(`blocks of ${block} do not divide a width of ${width}`);
  const scale = 1 / Math.sqrt(block);
  for (let start = 0; start < data.length; start += block) {
    const end = start + block;
    for (let half = 1; half < block; half *= 2) {
      for (let pair = start; pair < end; pair += 2 * half) {
        for (let i = pair; i < pair + half; i++) {
          const a = data[i] as number;
          const b = data[i + half] as number;
          data[i] = a + b;
          data[i + half] = a - b;
        }
      }
    }
    for (let i = start; i < end; i++) data[i] = (data[i] as number) * scale;
  }
}

/** The same along the other axis: each block of `block` consecutive rows of data [rows, columns], in place. */
export function applyHadamardToColumns(data: Float32Array, columns: number, block: number): void {
  const rows = data.length / columns;
  if (rows % block !== 0) throw new RangeError(`blocks of ${block} do not divide ${rows} rows`);
  const scale = 1 / Math.sqrt(block);
  for (let start = 0; start < rows; start += block) {
    for (let half = 1; half < block; half *= 2) {
      for (let pair = start; pair < start + block; pair += 2 * half) {
        const from = pair * columns;
        const offset = half * columns;
        for (let i = from; i < from + offset; i++) {
          const a = data[i] as number;
          const b = data[i + offset] as number;
          data[i] = a + b;
          data[i + offset] = a - b;
        }
      }
    }
    for (let i = start * columns; i < (start + block) * columns; i++) data[i] = (data[i] as number) * scale;
  }
}

/**
 * Fixed random signs, one for each of `count` elements. Before a Hadamard matrix they keep it from adding up what is alike,
 * which would make outliers instead of spreading them.
 * @param skip signs of the sequence that come before, for signs that are independent of others
 */
export function randomSigns(count: number, skip = 0): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => {
    let bits = Math.imul(skip + i + 1, 0x9e3779b1);
    bits = Math.imul(bits ^ (bits >>> 15), 0x85ebca6b);
    bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
    return ((bits ^ (bits >>> 16)) & 1) === 1 ? 1 : -1;
  });
}

/** Multiplies column i of each row of data [rows, factors.length] by `factors[i]`, in place. */
export function scaleColumns(data: Float32Array, factors: Float32Array): void {
  const width = factors.length;
  for (let start = 0; start < data.length; start += width) {
    for (let i = 0; i < width; i++) data[start + i] = (data[start + i] as number) * (factors[i] as number);
  }
}

/** Multiplies row i of data [factors.length, columns] by `factors[i]`, in place. */
export function scaleRows(data: Float32Array, factors: Float32Array): void {
  const columns = data.length / factors.length;
  for (let row = 0; row < factors.length; row++) {
    for (let i = row * columns; i < (row + 1) * columns; i++) {
      data[i] = (data[i] as number) * (factors[row] as number);
    }
  }
}

/** A fixed random orthogonal matrix [size, size]: Gram-Schmidt on normal deviates from a seeded generator. */
export function randomOrthogonal(size: number): Float64Array {
  const matrix = new Float64Array(size * size);
  let state = 0x9e3779b9;
  /** mulberry32, uniform in (0, 1) */
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32 + 2 ** -33;
  };
  const dot = (a: number, b: number) => {
    let sum = 0;
    for (let i = 0; i < size; i++) sum += (matrix[a * size + i] as number) * (matrix[b * size + i] as number);
    return sum;
  };
  for (let row = 0; row < size; row++) {
    for (let i = 0; i < size; i++) {
      matrix[row * size + i] = Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
    }
    // Twice, since one pass loses digits when a row is nearly dependent on those before.
    for (let pass = 0; pass < 2; pass++) {
      for (let before = 0; before < row; before++) {
        const projection = dot(row, before);
        for (let i = 0; i < size; i++) {
          matrix[row * size + i] =
            (matrix[row * size + i] as number) - projection * (matrix[before * size + i] as number);
        }
      }
    }
    const length = Math.sqrt(dot(row, row));
    for (let i = 0; i < size; i++) matrix[row * size + i] = (matrix[row * size + i] as number) / length;
  }
  return matrix;
}
