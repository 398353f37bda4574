/** Every family on the device against logits and greedy tokens that another implementation computed in fp32. */
import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ModelRunner } from '../../src/model/runner.js';
import { argmax, continueGreedily, matchesUpToGap, readExpected } from '../support/greedy.js';
import { wrongChoices } from './support/follow.js';
import { loadOnDevice, MODELS } from './support/models.js';

/** Choices whose second-best is nearer than this may go either way in half precision. */
const GAP = 0.05;

describe.each(readdirSync(MODELS))('%s', (name) => {
  const cases = readExpected(name);
  const eight = Array.from({ length: 8 }, (_, i) => cases[i % cases.length]!);
  let runner: ModelRunner;

  beforeAll(async () => {
    const loaded = await loadOnDevice(name);
    expect(loaded.precision).toBe('fp16');
    runner = loaded.runner;
  });
  afterAll(() => runner.dispose());

  it('computes the reference logits', async () => {
    const results = await continueGreedily(
      runner,
      cases.map((c) => c.ids),
      1,
      512,
    );
    results.forEach(({ firstLogits }, i) => {
      const error = Math.max(...cases[i]!.next_logits.map((x, j) => Math.abs(x - firstLogits[j]!)));
      expect(error).toBeLessThan(0.15);
    });
  });

  it.each([5, 16, 31, 64])('chooses the reference tokens in prefill chunks of %i', async (chunk) => {
    expect(await wrongChoices(runner, cases, GAP, { chunk, known: () => Number.POSITIVE_INFINITY })).toEqual([]);
  });

  it.each([1, 3, 8])('chooses them in batches of %i, prefills and decodes mixed', async (size) => {
    const known = (index: number) => [0, 50, 33, 64][index % 4]!;
    expect(await wrongChoices(runner, eight.slice(0, size), GAP, { chunk: 16, known })).toEqual([]);
  });

  it('generates them freely, until the first near-tie', async () => {
    const results = await continueGreedily(
      runner,
      cases.map((c) => c.ids),
      40,
      16,
    );
    results.forEach(({ tokens }, i) => {
      expect(matchesUpToGap(tokens, cases[i]!, GAP)).toBe(true);
    });
  });

  it('finds the likeliest token of greedy rows itself, and hands over the others whole', async () => {
    const c = cases[1]!;
    const batch = {
      tokens: Int32Array.from(c.ids),
      cumulativeLengths: Int32Array.of(0, c.ids.length),
      pastLengths: Int32Array.of(0),
      blockTables: Int32Array.of(3),
      maxBlocks: 1,
      logitRows: Int32Array.from(c.ids, (_, row) => row),
    };
    const { values: all, likeliest: none } = await runner.run(batch);
    expect(none).toBeUndefined();
    const rows = c.ids.map((_, row) => all.slice(row * runner.vocabSize, (row + 1) * runner.vocabSize));
    for (const greedy of [() => 0, () => 1, (row: number) => row % 2]) {
      const greedyRows = Uint8Array.from(rows, (_, row) => greedy(row));
      const { values, likeliest } = await runner.run({ ...batch, greedyRows });
      expect([...likeliest!.tokens]).toEqual(rows.map(argmax));
      expect([...likeliest!.logits]).toEqual(rows.map((row) => row[argmax(row)]));
      expect(values).toEqual(
        Float32Array.from(rows.filter((_, row) => greedyRows[row] === 0).flatMap((row) => [...row])),
      );
    }
  });

  it('sums up the rows that it hands over whole', async () => {
    const c = cases[0]!;
    const temperatures = Float32Array.of(1, 0.5, 2);
    const { values, summaries } = await runner.run({
      tokens: Int32Array.from(c.ids),
      cumulativeLengths: Int32Array.of(0, 3),
      pastLengths: Int32Array.of(0),
      blockTables: Int32Array.of(3),
      maxBlocks: 1,
      logitRows: Int32Array.of(0, 1, 2),
      temperatures,
    });
    const { chunkSize, chunks, maxima, masses } = summaries!;
    expect(chunkSize * chunks).toBe(runner.vocabSize);
    temperatures.forEach((temperature, row) => {
      const logits = values.subarray(row * runner.vocabSize, (row + 1) * runner.vocabSize);
      const weights = logits.map((x) => Math.exp(x / temperature));
      const total = weights.reduce((sum, x) => sum + x, 0);
      for (let chunk = 0; chunk < chunks; chunk++) {
        const part = (all: Float32Array) => all.subarray(chunk * chunkSize, (chunk + 1) * chunkSize);
        expect(maxima[row * chunks + chunk]).toBe(Math.max(...part(logits)));
        const share = part(weights).reduce((sum, x) => sum + x, 0) / total;
        expect(Math.abs(masses[row * chunks + chunk]! - share)).toBeLessThan(1e-5);
      }
    });
  });

  it('goes on from a copy of its blocks', async () => {
    const c = cases[1]!;
    const table = (offset: number) => Int32Array.from({ length: 2 }, (_, i) => offset + i);
    const step = (tokens: readonly number[], past: number, blockTables: Int32Array) =>
      runner.run({
        tokens: Int32Array.from(tokens),
        cumulativeLengths: Int32Array.of(0, tokens.length),
        pastLengths: Int32Array.of(past),
        blockTables,
        maxBlocks: 2,
        logitRows: Int32Array.of(tokens.length - 1),
      });
    await step(c.ids, 0, table(0));
    await runner.copyBlocks(table(0), table(10));
    const original = (await step([7], c.ids.length, table(0))).values.slice();
    const copied = (await step([7], c.ids.length, table(10))).values.slice();
    expect(copied).toEqual(original);
    const elsewhere = (await step([7], c.ids.length, table(20))).values;
    expect(elsewhere).not.toEqual(original);
  });
});
