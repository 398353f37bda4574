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

  it.each(['float32', 'int8'] as const)(
    'puts every head of every row into its slot, and nothing else, in %s',
    (type) => {
      fc.assert(
        fc.property(fc.uniqueArray(fc.nat(34), { minLength: 1, maxLength: 8 }), (slots) => {
          const { layers, kvHeads, headSize, blockSize } = shape;
          const pool = new CachePool({ ...shape, type, numBlocks: 6 });
          const rows = slots.length;
          // Different numbers, none of them zero, as far as 8 bits have any.
          const number = (i: number) => (type === 'int8' ? (i % 127) + 1 : i + 1);
          const length = 2 * layers * rows * kvHeads * headSize;
          pool.write(
            {
              rows: (type === 'int8' ? Int8Array : Float32Array).from(Array.from({ length }, (_, i) => number(i))),
              scales: type === 'int8' ? Float32Array.from({ length: length / headSize }, (_, i) => i + 1) : undefined,
            },
            Int32Array.from(slots),
          );
          for (let slot = 0; slot < 35; slot++) {
            const row = slots.indexOf(slot);
            const page = Math.floor(slot / blockSize);
            const place = slot % blockSize;
            for (let layer = 0; layer < layers; layer++) {
              for (let head = 0; head < kvHeads; head++) {
                for (const kind of [0, 1]) {
                  const source = ((2 * layer + kind) * rows + row) * kvHeads + head;
                  const pools = kind === 0 ? pool.keys : pool.values;
                  for (let i = 0; i < headSize; i++) {
                    const inHead = type === 'int8' && kind === 0 ? i * blockSize + place : place * headSize + i;
                    const found = pools[layer]![(page * kvHeads + head) * blockSize * headSize + inHead];
                    expect(found).toBe(row < 0 ? 0 : number(source * headSize + i));
                  }
                  if (type !== 'int8') continue;
                  const scale = pool.scales[layer]![(page * 2 * kvHeads + kind * kvHeads + head) * blockSize + place];
                  expect(scale).toBe(row < 0 ? 0 : source + 1);
                }
              }
            }
          }
        }),
        { numRuns: 30 },
      );
    },
  );

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
