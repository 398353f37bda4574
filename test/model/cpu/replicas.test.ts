/** Steps that replicas compute in threads of their own, against steps that one session computes. */
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Pace } from '../../../src/model/backends/cpu/pace.js';
import { CpuRunner } from '../../../src/model/backends/cpu/runner.js';
import { openCheckpoint } from '../../../src/model/formats/open.js';
import type { ModelRunner, StepBatch } from '../../../src/model/runner.js';
import { TINY_MODELS } from '../../support/model-directory.js';
import { mulberry32 } from '../../support/random.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { loadTiny, tokensOf } from '../../support/tiny-model.js';
import { widerModel } from '../../support/wider-model.js';

const BLOCK = 16;
const SEQUENCES = 24;
const MAX_BLOCKS = 8;
const VOCABULARY = 512;

const cache = temporaryDirectory();
const checkpoint = await openCheckpoint(resolve(TINY_MODELS, 'tiny-llama'));
const { architecture } = checkpoint;
await checkpoint.close();
const choose = vi.spyOn(Pace.prototype, 'choose');

/** With the cache in full precision, and in half of it. */
const MODELS = {
  fp32: resolve(TINY_MODELS, 'tiny-llama'),
  int8: widerModel('tiny-llama', join(cache, 'wider')),
} as const;

function load(replicas: number, precision: keyof typeof MODELS, threads = replicas): Promise<ModelRunner> {
  return loadTiny(cache, {
    model: MODELS[precision],
    precision,
    threads,
    dataParallelSize: replicas,
    maxNumSeqs: SEQUENCES,
    kvCacheMemory: 16 * 2 ** 20,
  });
}

/** A step of all sequences: the next tokens of each, some sampled and some greedy. */
function stepOf(pasts: readonly number[], counts: readonly number[]): StepBatch {
  const cumulative = [0];
  for (const count of counts) cumulative.push(cumulative.at(-1)! + count);
  return {
    tokens: Int32Array.from(counts.flatMap((count, s) => tokensOf(s, pasts[s]! + count).slice(pasts[s]))),
    cumulativeLengths: Int32Array.from(cumulative),
    pastLengths: Int32Array.from(pasts),
    blockTables: Int32Array.from({ length: counts.length * MAX_BLOCKS }, (_, i) => i),
    maxBlocks: MAX_BLOCKS,
    logitRows: Int32Array.from(cumulative.slice(1), (end) => end - 1),
    greedyRows: Uint8Array.from(counts, (_, s) => s % 2),
    temperatures: Float32Array.from(counts, (_, s) => 0.5 + s / 10),
  };
}

describe.each([
  { count: 2, precision: 'fp32' },
  { count: 3, precision: 'fp32' },
  { count: 2, precision: 'int8' },
] as const)('$count replicas in $precision', ({ count, precision }) => {
  let divided: ModelRunner;
  let whole: ModelRunner;
  beforeAll(async () => {
    choose.mockReturnValue('divided');
    divided = await load(count, precision);
    whole = await load(1, precision);
  });
  afterAll(() => Promise.all([divided.dispose(), whole.dispose()]));

  it('say so', () => {
    expect(divided.description).toContain(`divided between ${count} replicas`);
    expect(whole.description).not.toContain('replicas');
  });

  it('give the same bits as one session, prompts and decodes, step after step over one cache', async () => {
    const random = mulberry32(count);
    choose.mockClear();
    let pasts: number[] = Array.from({ length: SEQUENCES }, () => 0);
    for (let step = 0; step < 6; step++) {
      // Whole steps between divided ones: what one kind writes the other has to see.
      choose.mockReturnValueOnce(step === 3 ? 'whole' : 'divided');
      const counts = Array.from({ length: SEQUENCES }, () =>
        random() < 0.3 || step === 0 ? 1 + Math.floor(random() * 14) : 1,
      );
      const batch = stepOf(pasts, counts);
      expect(await divided.run(batch)).toEqual(await whole.run(batch));
      expect(choose).toHaveBeenCalledTimes(step + 1);
      pasts = pasts.map((past, s) => past + counts[s]!);
    }
  });

  it('share even two decodes, a row each', async () => {
    for (let past = 0; past < 3; past++) {
      const batch = stepOf([past, past], [1, 1]);
      expect(await divided.run(batch)).toEqual(await whole.run(batch));
    }
  });

  it('copy blocks for all', async () => {
    const counts = Array.from({ length: SEQUENCES }, () => BLOCK);
    await divided.run(
      stepOf(
        Array.from(counts, () => 0),
        counts,
      ),
    );
    // The blocks of the first half take the place of the second half's.
    const half = SEQUENCES / 2;
    const source = Int32Array.from({ length: half }, (_, s) => s * MAX_BLOCKS);
    await divided.copyBlocks(
      source,
      source.map((block) => block + half * MAX_BLOCKS),
    );
    const ones = Array.from(counts, () => 1);
    const next = stepOf(
      Array.from(counts, () => BLOCK),
      ones,
    );
    const tokens = next.tokens.map((_, s) => next.tokens[s % half]!);
    const { values } = await divided.run({ ...next, tokens, greedyRows: new Uint8Array(SEQUENCES) });
    const row = (s: number) => values.subarray(s * VOCABULARY, (s + 1) * VOCABULARY);
    for (let s = 0; s < half; s++) expect(row(s + half)).toEqual(row(s));
  });

  it('fail a step that one of them fails, and compute the next', async () => {
    const counts = Array.from({ length: SEQUENCES }, () => 1);
    const pasts = Array.from(counts, () => 0);
    const good = stepOf(pasts, counts);
    for (let s = 0; s < SEQUENCES; s += 5) {
      const tokens = good.tokens.slice();
      tokens[s] = 1_000_000;
      await expect(divided.run({ ...good, tokens })).rejects.toThrow(/indices|range|bounds/i);
      expect(await divided.run(good)).toEqual(await whole.run(good));
    }
  });
});

describe('as many replicas as', () => {
  it.each([
    { threads: 1, wanted: 0, replicas: undefined },
    { threads: 3, wanted: 0, replicas: 3 },
    { threads: 5, wanted: 0, replicas: undefined },
    { threads: 5, wanted: 2, replicas: 2 },
    { threads: 2, wanted: 4, replicas: 2 },
  ])('$threads threads have when $wanted are asked for: $replicas', async ({ threads, wanted, replicas }) => {
    const runner = await load(wanted, 'fp32', threads);
    if (replicas === undefined) expect(runner.description).not.toContain('replicas');
    else expect(runner.description).toContain(`between ${replicas} replicas`);
    await runner.dispose();
  });

  it('have a model: without one they leave no thread behind', async () => {
    const missing = CpuRunner.create({
      modelFile: '/nowhere/model.onnx',
      architecture,
      blockSize: BLOCK,
      cacheType: 'float32',
      kvCacheMemory: 2 ** 20,
      threads: 2,
      replicas: 2,
    });
    await expect(missing).rejects.toThrow(/nowhere/);
  });
});
