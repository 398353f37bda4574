import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type BlockId, BlockPool } from '../../../src/engine/kv/block-pool.js';

describe('BlockPool', () => {
  test('hands out the lowest free block', () => {
    const pool = new BlockPool(100);
    for (let i = 0; i < 70; i++) expect(pool.allocate()).toBe(i);
    for (const block of [66, 3, 40]) pool.release(block);
    expect([pool.allocate(), pool.allocate(), pool.allocate(), pool.allocate()]).toEqual([3, 40, 66, 70]);
  });

  test('gives nothing when all are in use, and takes them back', () => {
    const pool = new BlockPool(33);
    const blocks = Array.from({ length: 33 }, () => pool.allocate()!);
    expect(pool.allocate()).toBeUndefined();
    expect(pool.freeBlocks).toBe(0);
    for (const block of blocks) pool.release(block);
    expect([pool.usedBlocks, pool.highWater]).toEqual([0, 0]);
    pool.check([]);
  });

  test('the high-water mark falls with the highest block in use', () => {
    const pool = new BlockPool(10);
    for (let i = 0; i < 6; i++) pool.allocate();
    pool.release(4);
    expect(pool.highWater).toBe(6);
    pool.release(5);
    expect(pool.highWater).toBe(4);
  });

  test('a shared block is free after its last owner', () => {
    const pool = new BlockPool(2);
    const block = pool.allocate()!;
    pool.reference(block);
    expect(pool.release(block)).toBe(false);
    pool.check([[block]]);
    expect(pool.release(block)).toBe(true);
    pool.check([]);
  });

  test('refuses to release or share what is free', () => {
    const pool = new BlockPool(4);
    expect(() => pool.release(2)).toThrow('block 2');
    expect(() => pool.reference(2)).toThrow('block 2');
    expect(() => pool.release(4)).toThrow('block 4');
    expect(() => new BlockPool(0)).toThrow(RangeError);
  });

  test('check finds a leak, a lost owner and a stranger', () => {
    const pool = new BlockPool(4);
    pool.allocate();
    expect(() => pool.check([])).toThrow('block 0 counts 1 references but has 0 owners');
    expect(() => pool.check([[0], [0]])).toThrow('has 2 owners');
    expect(() => pool.check([[0], [7]])).toThrow('outside');
    pool.check([[0]]);
  });

  test('agrees with a plain list under any history', () => {
    const operations = fc.array(fc.tuple(fc.constantFrom('allocate', 'allocate', 'share', 'release'), fc.nat()), {
      maxLength: 300,
    });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1100 }), operations, fc.nat(1100), (numBlocks, steps, prefilled) => {
        const pool = new BlockPool(numBlocks);
        const references = new Array<number>(numBlocks).fill(0);
        const owned: BlockId[] = [];
        const allocate = () => {
          const expected = references.indexOf(0);
          const block = pool.allocate();
          expect(block).toBe(expected < 0 ? undefined : expected);
          if (block === undefined) return;
          references[block] = 1;
          owned.push(block);
        };
        for (let i = 0; i < Math.min(prefilled, numBlocks); i++) allocate();
        for (const [kind, pick] of steps) {
          const index = pick % Math.max(1, owned.length);
          const block = owned[index];
          if (kind === 'allocate') allocate();
          else if (block === undefined) continue;
          else if (kind === 'share') {
            pool.reference(block);
            references[block]!++;
            owned.push(block);
          } else {
            owned.splice(index, 1);
            references[block]!--;
            expect(pool.release(block)).toBe(references[block] === 0);
          }
        }
        pool.check([owned]);
        expect(pool.usedBlocks).toBe(references.filter((count) => count > 0).length);
        expect(pool.highWater).toBe(references.findLastIndex((count) => count > 0) + 1);
      }),
    );
  });
});
