/** The CPU backend in fp32 against logits and greedy tokens that another implementation computed. */
import { describe, expect, it } from 'vitest';
import { continueGreedily, readExpected } from '../../support/greedy.js';
import { tinyModels, tinyRunner } from '../../support/tiny-model.js';

describe.each(tinyModels)('%s in fp32', (name) => {
  const cases = readExpected(name);
  const runner = tinyRunner(name, 4 * 2 ** 20);

  it.each([1, 5, 16, 512])('computes the reference logits and tokens in chunks of %i', async (chunk) => {
    for (const c of cases) {
      const [result] = await continueGreedily(runner(), [c.ids], c.greedy.length, chunk);
      const error = Math.max(...c.next_logits.map((x, i) => Math.abs(x - (result?.firstLogits[i] as number))));
      expect(error).toBeLessThan(1e-3);
      expect(result?.tokens).toEqual(c.greedy);
    }
  });

  it('computes the same for prompts that share a batch, decodes and prefill chunks mixed', async () => {
    const prompts = [...cases, ...cases].map((c) => c.ids);
    const results = await continueGreedily(runner(), prompts, 40, 7);
    results.forEach((result, i) => {
      expect(result.tokens).toEqual(cases[i % cases.length]?.greedy);
    });
  });

  it('reads a sparse pool: blocks far apart give the same tokens', async () => {
    const c = cases[0]!;
    const first = runner().numBlocks - 8;
    const tokens = [...c.ids];
    let past = 0;
    while (tokens.length < c.ids.length + 20) {
      const { values } = await runner().run({
        tokens: Int32Array.from(tokens.slice(past)),
        cumulativeLengths: Int32Array.of(0, tokens.length - past),
        pastLengths: Int32Array.of(past),
        blockTables: Int32Array.of(first, first - 100, first + 3, first - 50),
        maxBlocks: 4,
        logitRows: Int32Array.of(tokens.length - past - 1),
      });
      past = tokens.length;
      tokens.push(values.indexOf(Math.max(...values)));
    }
    expect(tokens.slice(c.ids.length)).toEqual(c.greedy.slice(0, 20));
  });

  it('copies blocks: a sequence goes on from the copy', async () => {
    const c = cases[1]!;
    const table = (offset: number) => Int32Array.from({ length: 6 }, (_, i) => offset + i);
    await runner().run({
      tokens: Int32Array.from(c.ids),
      cumulativeLengths: Int32Array.of(0, c.ids.length),
      pastLengths: Int32Array.of(0),
      blockTables: table(0),
      maxBlocks: 6,
      logitRows: new Int32Array(0),
    });
    await runner().copyBlocks(table(0), table(10));
    const { values } = await runner().run({
      tokens: Int32Array.of(c.greedy[0]!),
      cumulativeLengths: Int32Array.of(0, 1),
      pastLengths: Int32Array.of(c.ids.length),
      blockTables: table(10),
      maxBlocks: 6,
      logitRows: Int32Array.of(0),
    });
    expect(values.indexOf(Math.max(...values))).toBe(c.greedy[1]);
  });

  it('reads a block that two sequences share', async () => {
    const c = cases[1]!;
    await runner().run({
      tokens: Int32Array.from(c.ids),
      cumulativeLengths: Int32Array.of(0, c.ids.length),
      pastLengths: Int32Array.of(0),
      blockTables: Int32Array.of(5, 6, 7),
      maxBlocks: 3,
      logitRows: new Int32Array(0),
    });
    await runner().copyBlocks(Int32Array.of(6, 7), Int32Array.of(1, 2));
    const { values, vocabSize } = await runner().run({
      tokens: Int32Array.of(c.greedy[0]!, c.greedy[0]!),
      cumulativeLengths: Int32Array.of(0, 1, 2),
      pastLengths: Int32Array.of(c.ids.length, c.ids.length),
      blockTables: Int32Array.of(5, 6, 7, 5, 1, 2),
      maxBlocks: 3,
      logitRows: Int32Array.of(0, 1),
    });
    for (const row of [values.slice(0, vocabSize), values.slice(vocabSize)]) {
      expect(row.indexOf(Math.max(...row))).toBe(c.greedy[1]);
    }
  });
});
