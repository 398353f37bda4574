import { describe, expect, test } from 'vitest';
import { philox4x32, uniform } from '../../../src/engine/sampler/philox.js';

describe('philox4x32', () => {
  // Known answers that come with the authors' Random123 library (kat_vectors, philox 4x32, 10 rounds).
  test.each([
    [
      [0, 0, 0, 0],
      [0, 0],
      [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8],
    ],
    [
      [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
      [0xffffffff, 0xffffffff],
      [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
    ],
    [
      [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
      [0xa4093822, 0x299f31d0],
      [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
    ],
  ])('counter %j, key %j', (counter, [key0, key1], expected) => {
    const block = Uint32Array.from(counter);
    philox4x32(block, key0!, key1!);
    expect([...block]).toEqual(expected);
  });
});

describe('uniform', () => {
  test('is a function of seed, choice and position, each of which changes it', () => {
    expect(uniform(7, 0, 1)).toBe(uniform(7, 0, 1));
    const others = [
      uniform(8, 0, 1),
      uniform(7, 1, 1),
      uniform(7, 0, 2),
      uniform(7 + 2 ** 32, 0, 1),
      uniform(-7, 0, 1),
    ];
    expect(new Set([uniform(7, 0, 1), ...others]).size).toBe(6);
  });

  test('takes the largest and smallest safe integers', () => {
    for (const seed of [Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, 0, -1]) {
      const value = uniform(seed, 0, 0);
      expect(value).toBeGreaterThanOrEqual(0);
      expect(value).toBeLessThan(1);
    }
    expect(uniform(Number.MAX_SAFE_INTEGER, 0, 0)).not.toBe(uniform(Number.MAX_SAFE_INTEGER - 1, 0, 0));
  });

  test('fills [0, 1) evenly over positions', () => {
    const draws = 64_000;
    const counts = new Array<number>(64).fill(0);
    for (let i = 0; i < draws; i++) counts[Math.floor(uniform(1, 0, i) * 64)]!++;
    const chiSquare = counts.reduce((sum, count) => sum + (count - draws / 64) ** 2 / (draws / 64), 0);
    // 63 degrees of freedom: 1 in 10,000 exceeds 112.
    expect(chiSquare).toBeLessThan(112);
  });
});
