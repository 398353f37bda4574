import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { UserError } from '../../../src/errors.js';
import { CachePool } from '../../../src/model/backends/cpu/pool.js';

const shape = { layers: 2, kvHeads: 3, headSize: 4, blockSize: 5, type: 'float32' } as const;
/** Keys and values of two layers, three heads, five slots, four f32. */
const BLOCK_BYTES = 2 * 2 * 3 * 5 * 4 * 4;

describe('the pool of the CPU cache', () => {
  it('has as many blocks as fit, beside the masked page', () => {
    const pool = CachePool.ofBytes(7.5 * BLOCK_BYTES, shape);
    expect(pool.shape.numBlocks).toBe(6);
    expect(pool.bytes).toBe(7 * BLOCK_BYTES);
    expect(CachePool.ofBytes(7.5 * BLOCK_BYTES, { ...shape, type: 'float16' }).shape.numBlocks).toBe(14);
    // A byte for each number and a scale for every four of them.
    expect(CachePool.ofBytes(7.5 * BLOCK_BYTES, { ...shape, type: 'int8' }).shape.numBlocks).toBe(14);
  });

  it.each([0, BLOCK_BYTES, 2 ** 60])('refuses %i bytes in words for the user', (bytes) => {
    expect(() => CachePool.ofBytes(bytes, shape)).toThrow(UserError);
  });

  /** Slots of a step's rows: some neighbours, as a prompt's are, and any others. */
  const anySlots = fc
    .tuple(fc.nat(30), fc.nat(14), fc.uniqueArray(fc.nat(34), { minLength: 1, maxLength: 5 }))
    .map(([first, count, others]) => {
      const neighbours = Array.from({ length: Math.min(count, 35 - first) }, (_, i) => first + i);
      return [...neighbours, ...others.filter((slot) => slot < first || slot >= first + count)];
    })
    .filter((slots) => slots.length > 0);

  /** Copied element by element, and four bytes at a time. */
  it.each([
    { type: 'float32', headSize: 4, blockSize: 5 },
    { type: 'float16', headSize: 4, blockSize: 5 },
    { type: 'float16', headSize: 3, blockSize: 5 },
    { type: 'int8', headSize: 4, blockSize: 5 },
    { type: 'int8', headSize: 6, blockSize: 8 },
    { type: 'int8', headSize: 8, blockSize: 8 },
  ] as const)('puts every head into its slot, and nothing else, in $type, $headSize by $blockSize', (kind) => {
    const { type, headSize, blockSize } = kind;
    fc.assert(
      fc.property(anySlots, (slots) => {
        const { layers, kvHeads } = shape;
        const pool = new CachePool({ layers, kvHeads, ...kind, numBlocks: 6 });
        const rows = slots.length;
        // Different numbers, none of them zero, as far as 8 bits have any; of either sign.
        const number = (i: number) => (type === 'int8' ? (i % 255) - 127 || -128 : i + 1);
        const length = 2 * layers * rows * kvHeads * headSize;
        const numbers = Array.from({ length }, (_, i) => number(i));
        pool.write(
          {
            rows: { float32: Float32Array, float16: Uint16Array, int8: Int8Array }[type].from(numbers),
            scales: type === 'int8' ? Float32Array.from({ length: length / headSize }, (_, i) => i + 1) : undefined,
          },
          Int32Array.from(slots),
        );
        for (let slot = 0; slot < 35; slot++) {
          const row = slots.indexOf(slot);
          const page = Math.floor(slot / blockSize);
          const place = slot % blockSize;
          for (let matrix = 0; matrix < 2 * layers; matrix++) {
            const layer = Math.floor(matrix / 2);
            const isKey = matrix % 2 === 0;
            for (let head = 0; head < kvHeads; head++) {
              const source = (matrix * rows + row) * kvHeads + head;
              const pageHead = (isKey ? pool.keys : pool.values)[layer]!.subarray(
                (page * kvHeads + head) * blockSize * headSize,
              );
              const found = Array.from({ length: headSize }, (_, i) =>
                type === 'int8' && isKey ? pageHead[i * blockSize + place] : pageHead[place * headSize + i],
              );
              expect(found).toEqual(found.map((_, i) => (row < 0 ? 0 : number(source * headSize + i))));
              if (type !== 'int8') continue;
              const scaleRow = page * 2 * kvHeads + (isKey ? 0 : kvHeads) + head;
              expect(pool.scales[layer]![scaleRow * blockSize + place]).toBe(row < 0 ? 0 : source + 1);
            }
          }
        }
      }),
      { numRuns: 40 },
    );
  });

  it.each(['float16', 'int8'] as const)('copies pages of %s whole', (type) => {
    const pool = new CachePool({ ...shape, type, numBlocks: 6 });
    const parts = [...pool.keys, ...pool.values, ...pool.scales];
    for (const part of parts) {
      for (let i = 0; i < part.length; i++) part[i] = (i % 97) + 1;
    }
    const before = parts.map((part) => part.slice());
    pool.copyPages([1, 4], [5, 2]);
    for (const [p, part] of parts.entries()) {
      const size = part.length / 7;
      const page = (from: typeof part, n: number) => from.subarray(n * size, (n + 1) * size);
      for (const [n, source] of [0, 1, 4, 3, 4, 1, 6].entries())
        expect(page(part, n)).toEqual(page(before[p]!, source));
    }
  });

  it('lets two of a shape share their memory, behind 4 GiB as well', () => {
    const large = {
      layers: 3,
      kvHeads: 1,
      headSize: 2 ** 10,
      blockSize: 2 ** 10,
      numBlocks: 255,
      type: 'float32',
    } as const;
    const one = new CachePool(large);
    expect(one.bytes).toBeGreaterThan(2 ** 32);
    const other = new CachePool(large, one.memory);
    const last = one.values[2]!.length - 1;
    one.values[2]![last] = 42;
    one.keys[0]![0] = 43;
    expect([other.values[2]![last], other.keys[0]![0], other.values[1]![last]]).toEqual([42, 43, 0]);
  });
});
