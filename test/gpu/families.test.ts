/** Every family on the device against logits and greedy tokens that another implementation computed in fp32. */
import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ModelRunner } from '../../src/model/runner.js';
import { continueGreedily, matchesUpToGap, readExpected } from '../support/greedy.js';
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
