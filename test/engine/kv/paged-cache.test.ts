import { expect, test } from 'vitest';
import { BlockTable } from '../../../src/engine/kv/block-table.js';
import { PagedCache } from '../../../src/engine/kv/paged-cache.js';

test('a table grows to the blocks its tokens take, or not at all', () => {
  const cache = new PagedCache(5, 4);
  const [a, b] = [new BlockTable(), new BlockTable()];
  expect(cache.grow(a, 9)).toBe(true);
  expect([...a.blocks]).toEqual([0, 1, 2]);
  expect(cache.grow(a, 12)).toBe(true);
  expect(a.length).toBe(3);
  expect(cache.grow(b, 9)).toBe(false);
  expect(b.length).toBe(0);
  expect(cache.grow(b, 8)).toBe(true);
  expect(cache.availableBlocks).toBe(0);
  cache.check([a, b]);
});

test('a table shrinks to the blocks of what it keeps', () => {
  const cache = new PagedCache(8, 4);
  const table = new BlockTable();
  cache.grow(table, 30);
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
  expect(table.pop()).toBe(18);
});
