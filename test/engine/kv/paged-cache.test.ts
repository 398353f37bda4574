import { describe, expect, test } from 'vitest';
import { BlockTable } from '../../../src/engine/kv/block-table.js';
import { PagedCache } from '../../../src/engine/kv/paged-cache.js';

const noCopies = () => ({ sources: [] as number[], targets: [] as number[] });

test('a table grows to the blocks its tokens take, or not at all', () => {
  const cache = new PagedCache(5, 4);
  const [a, b] = [new BlockTable(), new BlockTable()];
  const copies = noCopies();
  expect(cache.grow(a, 9, 0, copies)).toBe(true);
  expect([...a.blocks]).toEqual([0, 1, 2]);
  expect(cache.grow(a, 12, 9, copies)).toBe(true);
  expect(a.length).toBe(3);
  expect(cache.grow(b, 9, 0, copies)).toBe(false);
  expect(b.length).toBe(0);
  expect(cache.grow(b, 8, 0, copies)).toBe(true);
  expect(cache.availableBlocks).toBe(0);
  expect(copies.sources).toEqual([]);
  cache.check([a, b]);
});

test('a table shrinks to the blocks of what it keeps', () => {
  const cache = new PagedCache(8, 4);
  const table = new BlockTable();
  cache.grow(table, 30, 0, noCopies());
  cache.shrink(table, 9);
  expect([...table.blocks]).toEqual([0, 1, 2]);
  cache.check([table]);
  cache.shrink(table, 0);
  expect([table.length, cache.pool.usedBlocks]).toEqual([0, 0]);
});

test('a table copies itself into a row and keeps to its bounds', () => {
  const table = new BlockTable();
  for (let i = 0; i < 9; i++) table.push(10 + i);
  const rows = new Int32Array(12);
  table.copyTo(rows, 2);
  expect([...rows]).toEqual([0, 0, 10, 11, 12, 13, 14, 15, 16, 17, 18, 0]);
  expect(table.at(8)).toBe(18);
  expect(() => table.at(9)).toThrow(RangeError);
  expect(() => table.replace(9, 1)).toThrow(RangeError);
  expect(table.pop()).toBe(18);
});

describe('a fork', () => {
  test('owns the same blocks; whoever writes to a shared one gets a copy, the last owner does not', () => {
    const cache = new PagedCache(8, 4);
    const [a, b, c] = [new BlockTable(), new BlockTable(), new BlockTable()];
    cache.grow(a, 6, 0, noCopies());
    cache.fork(a, b);
    cache.fork(a, c);
    expect([cache.pool.usedBlocks, cache.distinctBlocks([a, b, c])]).toEqual([2, 2]);
    const copies = noCopies();
    // Token 6 goes to the second block; the first, which is full, stays shared.
    expect(cache.grow(a, 7, 6, copies)).toBe(true);
    expect(cache.grow(b, 7, 6, copies)).toBe(true);
    expect(cache.grow(c, 7, 6, copies)).toBe(true);
    expect(copies).toEqual({ sources: [1, 1], targets: [2, 3] });
    expect([a, b, c].map((table) => [...table.blocks])).toEqual([
      [0, 2],
      [0, 3],
      [0, 1],
    ]);
    cache.check([a, b, c]);
    for (const table of [a, b, c]) cache.shrink(table, 0);
    expect(cache.pool.usedBlocks).toBe(0);
  });

  test('that finds no block for its copy changes nothing', () => {
    const cache = new PagedCache(2, 4);
    const [a, b] = [new BlockTable(), new BlockTable()];
    cache.grow(a, 6, 0, noCopies());
    cache.fork(a, b);
    const copies = noCopies();
    expect(cache.grow(a, 7, 6, copies)).toBe(false);
    expect([copies.sources, [...a.blocks]]).toEqual([[], [0, 1]]);
    cache.check([a, b]);
  });

  test('on a block’s border needs no copy', () => {
    const cache = new PagedCache(8, 4);
    const [a, b] = [new BlockTable(), new BlockTable()];
    cache.grow(a, 8, 0, noCopies());
    cache.fork(a, b);
    const copies = noCopies();
    expect(cache.grow(a, 9, 8, copies)).toBe(true);
    expect([copies.sources, [...a.blocks], [...b.blocks]]).toEqual([[], [0, 1, 2], [0, 1]]);
    cache.check([a, b]);
  });
});
