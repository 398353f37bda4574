import { performance } from 'node:perf_hooks';
import { afterEach, expect, it, vi } from 'vitest';
import { HeapTrimmer } from '../../../src/model/backends/cpu/heap.js';

afterEach(() => vi.restoreAllMocks());

it('gives memory back every half a minute, however often it is asked', () => {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0);
  const giveBack = vi.fn(() => 1);
  const heap = new HeapTrimmer(giveBack);
  for (let second = 0; second <= 100; second++) {
    clock.mockReturnValue(1000 * second);
    heap.trim();
    heap.trim();
  }
  expect(giveBack.mock.calls).toEqual([[0], [0], [0]]);
});

it.runIf(process.platform === 'linux')('calls what the system has for it', () => {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0);
  const heap = new HeapTrimmer();
  clock.mockReturnValue(60_000);
  expect(() => heap.trim()).not.toThrow();
});
