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
  });

  it.each([0, BLOCK_BYTES, 2 ** 60])('refuses %i bytes in words for the user', (bytes) => {
    expect(() => CachePool.ofBytes(bytes, shape)).toThrow(UserError);
  });

  it('puts every head of every row into its slot and touches nothing else', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(34), { minLength: 1, maxLength: 8 }), (slots) => {
        const pool = CachePool.ofBytes(7 * BLOCK_BYTES, shape);
        const width = 2 * 3 * 4;
        const present = Float32Array.from({ length: 2 * slots.length * width }, (_, i) => i + 1);
        pool.write({ rows: present, scales: undefined }, Int32Array.from(slots));
        const at = (layer: number, kind: 'keys' | 'values', slot: number, head: number, i: number) =>
          pool[kind][layer]![((Math.floor(slot / 5) * 3 + head) * 5 + (slot % 5)) * 4 + i];
        for (let slot = 0; slot < 35; slot++) {
          const row = slots.indexOf(slot);
          for (let layer = 0; layer < 2; layer++) {
            for (let head = 0; head < 3; head++) {
              for (let i = 0; i < 4; i++) {
                const key = row < 0 ? 0 : (layer * slots.length + row) * width + head * 4 + i + 1;
                expect(at(layer, 'keys', slot, head, i)).toBe(key);
                expect(at(layer, 'values', slot, head, i)).toBe(row < 0 ? 0 : key + width / 2);
              }
            }
          }
        }
      }),
      { numRuns: 30 },
    );
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
