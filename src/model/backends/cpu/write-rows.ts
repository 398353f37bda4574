/** Copies rows of keys or values into their pages. */

/** Rows that go to neighbouring slots of a page. */
export interface Run {
  /** First of the step's rows. */
  readonly row: number;
  readonly count: number;
  readonly page: number;
  /** First slot within the page. */
  readonly slot: number;
}

/** @param slots of each row, counted through all pages */
export function runsOf(slots: Int32Array, blockSize: number): Run[] {
  const runs: Run[] = [];
  for (let row = 0; row < slots.length; ) {
    const first = slots[row] as number;
    const slot = first % blockSize;
    let count = 1;
    while (slot + count < blockSize && slots[row + count] === first + count) count++;
    runs.push({ row, count, page: (first - slot) / blockSize, slot });
    row += count;
  }
  return runs;
}

/** Elements of whatever size: those of the cache, or several of them as one. */
export type Elements = Float32Array | Uint16Array | Int8Array | Int32Array;

/** Shapes in elements of the arrays that are copied. */
export interface RowCopy {
  readonly kvHeads: number;
  readonly headSize: number;
  readonly blockSize: number;
  /** Where the step's first row begins. */
  readonly from: number;
}

/** Rows [rows, KV heads, head size] of `source` to pages [pages, KV heads, page size, head size]. */
export function copyRows(source: Elements, target: Elements, runs: readonly Run[], copy: RowCopy): void {
  const { kvHeads, headSize, blockSize, from } = copy;
  for (const { row, count, page, slot } of runs) {
    for (let head = 0; head < kvHeads; head++) {
      let read = from + (row * kvHeads + head) * headSize;
      let write = ((page * kvHeads + head) * blockSize + slot) * headSize;
      for (let i = 0; i < count; i++) {
        for (let element = 0; element < headSize; element++) {
          target[write + element] = source[read + element] as number;
        }
        read += kvHeads * headSize;
        write += headSize;
      }
    }
  }
}

/** Rows [rows, KV heads, head size] of `source` to transposed pages [pages, KV heads, head size, page size], byte by byte. */
export function transposeRows(source: Int8Array, target: Int8Array, runs: readonly Run[], copy: RowCopy): void {
  const { kvHeads, headSize, blockSize, from } = copy;
  for (const { row, count, page, slot } of runs) {
    for (let i = 0; i < count; i++) {
      for (let head = 0; head < kvHeads; head++) {
        const read = from + ((row + i) * kvHeads + head) * headSize;
        let write = (page * kvHeads + head) * headSize * blockSize + slot + i;
        for (let element = 0; element < headSize; element++) {
          target[write] = source[read + element] as number;
          write += blockSize;
        }
      }
    }
  }
}

const EVEN_BYTES = 0x00ff00ff;
const ODD_BYTES = 0xff00ff00;
const LOW_HALF = 0x0000ffff;
const HIGH_HALF = 0xffff0000;

/**
 * The same four rows by four elements at a time, in two rounds of exchanges: of neighbouring bytes and then of halves.
 * `source` and `target` hold four bytes as one i32, little-endian; sizes in `copy` are in bytes. Head size, page size, the
 * rows of each run and its first slot are multiples of four.
 */
export function transposeWords(source: Int32Array, target: Int32Array, runs: readonly Run[], copy: RowCopy): void {
  const { kvHeads, headSize, blockSize, from } = copy;
  const headWords = headSize / 4;
  const pageWords = blockSize / 4;
  const rowWords = kvHeads * headWords;
  for (const { row, count, page, slot } of runs) {
    for (let i = 0; i < count; i += 4) {
      for (let head = 0; head < kvHeads; head++) {
        let read = from / 4 + (row + i) * rowWords + head * headWords;
        let write = (page * kvHeads + head) * headSize * pageWords + (slot + i) / 4;
        for (let word = 0; word < headWords; word++) {
          const a = source[read] as number;
          const b = source[read + rowWords] as number;
          const c = source[read + 2 * rowWords] as number;
          const d = source[read + 3 * rowWords] as number;
          const evenAB = (a & EVEN_BYTES) | ((b & EVEN_BYTES) << 8);
          const evenCD = (c & EVEN_BYTES) | ((d & EVEN_BYTES) << 8);
          const oddAB = ((a >>> 8) & EVEN_BYTES) | (b & ODD_BYTES);
          const oddCD = ((c >>> 8) & EVEN_BYTES) | (d & ODD_BYTES);
          target[write] = (evenAB & LOW_HALF) | (evenCD << 16);
          target[write + pageWords] = (oddAB & LOW_HALF) | (oddCD << 16);
          target[write + 2 * pageWords] = (evenAB >>> 16) | (evenCD & HIGH_HALF);
          target[write + 3 * pageWords] = (oddAB >>> 16) | (oddCD & HIGH_HALF);
          write += 4 * pageWords;
          read++;
        }
      }
    }
  }
}

/** Cuts runs into the parts that `transposeWords` takes and the rest. */
export function splitQuads(runs: readonly Run[]): { quads: Run[]; rest: Run[] } {
  const quads: Run[] = [];
  const rest: Run[] = [];
  const put = (to: Run[], { row, page, slot }: Run, begin: number, end: number) => {
    if (end > begin) to.push({ row: row + begin, count: end - begin, page, slot: slot + begin });
  };
  for (const run of runs) {
    const begin = Math.min(run.count, (4 - (run.slot % 4)) % 4);
    const end = begin + Math.floor((run.count - begin) / 4) * 4;
    put(rest, run, 0, begin);
    put(quads, run, begin, end);
    put(rest, run, end, run.count);
  }
  return { quads, rest };
}
