import { describe, expect, test } from 'vitest';
import { FlushQueue } from '../../src/engine/flush-queue.js';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('FlushQueue', () => {
  test('hands on in order, a bounded number a turn, and each once however often it was added', async () => {
    const queue = new FlushQueue();
    const flushed: number[] = [];
    const streams = Array.from({ length: 150 }, (_, i) => ({ flush: () => flushed.push(i) }));
    for (let round = 0; round < 3; round++) for (const stream of streams) queue.add(stream);
    expect(flushed).toEqual([]);
    await turn();
    const first = flushed.length;
    expect(first).toBeGreaterThan(0);
    expect(first).toBeLessThan(150);
    while (flushed.length < 150) await turn();
    await turn();
    expect(flushed).toEqual(streams.map((_, i) => i));
  });

  test('takes what comes while it hands on, and what comes after it was empty', async () => {
    const queue = new FlushQueue();
    const flushed: string[] = [];
    const late = { flush: () => flushed.push('late') };
    queue.add({
      flush: () => {
        flushed.push('first');
        queue.add(late);
      },
    });
    while (flushed.length < 2) await turn();
    queue.add(late);
    await turn();
    await turn();
    expect(flushed).toEqual(['first', 'late', 'late']);
  });
});
