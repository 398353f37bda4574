/** The cache stays on the device and is written in place: what a step costs does not depend on the pool's size. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { blockBytes } from '../../src/model/backends/webgpu/cache.js';
import type { ModelRunner, StepBatch } from '../../src/model/runner.js';
import { loadOnDevice } from './support/models.js';
import { median, residentBytes } from './support/process.js';

const SMALL = 1024;
const LARGE = 16 * SMALL;
/** tiny-llama: 3 layers, 2 KV heads of 16. */
const BLOCK = 2 * 3 * blockBytes({ kvHeads: 2, headSize: 16, blockSize: 32 });

/** A decode step of four sequences; the last ones of the pool, so that all of it would have to be moved. */
function decodeStep(runner: ModelRunner, past: number): StepBatch {
  return {
    tokens: Int32Array.of(5, 6, 7, 8),
    cumulativeLengths: Int32Array.of(0, 1, 2, 3, 4),
    pastLengths: new Int32Array(4).fill(past),
    blockTables: Int32Array.from({ length: 4 }, (_, i) => runner.numBlocks - 1 - i),
    maxBlocks: 1,
    logitRows: Int32Array.of(0, 1, 2, 3),
  };
}

describe('a pool 16 times larger', () => {
  let small: ModelRunner;
  let large: ModelRunner;

  beforeAll(async () => {
    small = (await loadOnDevice('tiny-llama', { kvCacheMemory: SMALL * BLOCK })).runner;
    large = (await loadOnDevice('tiny-llama', { kvCacheMemory: LARGE * BLOCK })).runner;
    expect([small.numBlocks, large.numBlocks]).toEqual([SMALL, LARGE]);
    expect(large.kvCacheBytes).toBe(LARGE * BLOCK);
  });
  afterAll(async () => {
    await small.dispose();
    await large.dispose();
  });

  async function medianTimes(
    step: (runner: ModelRunner, i: number) => Promise<unknown>,
    count: number,
  ): Promise<number[]> {
    const times: number[][] = [[], []];
    for (let i = 0; i < count; i++) {
      for (const [which, runner] of [small, large].entries()) {
        const start = performance.now();
        await step(runner, i);
        if (i >= 3) times[which]!.push(performance.now() - start);
      }
    }
    return times.map(median);
  }

  it('makes a decode step less than 1.3 times slower', async () => {
    const [s, l] = await medianTimes((runner, i) => runner.run(decodeStep(runner, i % 32)), 63);
    expect(l! / s!).toBeLessThan(1.3);
  });

  it('takes no memory for a step: nothing of its size is copied or read back', async () => {
    for (let i = 0; i < 5; i++) await large.run(decodeStep(large, i));
    const before = residentBytes();
    for (let i = 5; i < 25; i++) await large.run(decodeStep(large, i));
    expect(residentBytes() - before).toBeLessThan((LARGE * BLOCK) / 8);
  });

  it('makes copies of blocks no slower either', async () => {
    const copy = (runner: ModelRunner) =>
      runner.copyBlocks(Int32Array.of(1, 2), Int32Array.of(runner.numBlocks - 1, 5));
    const [s, l] = await medianTimes(copy, 23);
    expect(l! / s!).toBeLessThan(1.5);
  });

  it('keeps what is written: the same sequence, far apart in the pools, gives the same logits', async () => {
    const rows: Float32Array[] = [];
    for (const runner of [small, large]) {
      let values: Float32Array = new Float32Array();
      for (let past = 0; past < 4; past++) ({ values } = await runner.run(decodeStep(runner, past)));
      rows.push(values.slice());
    }
    expect(rows[1]).toEqual(rows[0]);
  });
});
