/** Checkpoints as read give the logits that transformers computed from the same files. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { openCheckpoint } from '../../../src/model/formats/open.js';
import { referenceLogits } from '../../support/reference-decoder.js';

interface Expected {
  readonly cases: readonly {
    readonly ids: readonly number[];
    readonly next_logits: readonly number[];
    readonly greedy: readonly number[];
    readonly greedy_gaps: readonly number[];
  }[];
}

const models = new URL('../../fixtures/models/', import.meta.url).pathname;

describe.each(readdirSync(models))('%s', (model) => {
  const expected = JSON.parse(readFileSync(`${models}${model}/expected.json`, 'utf8')) as Expected;

  it('gives the reference logits and greedy tokens', async () => {
    const checkpoint = await openCheckpoint(models + model);
    for (const { ids, next_logits, greedy, greedy_gaps } of expected.cases) {
      const logits = await referenceLogits(checkpoint, [...ids, ...greedy.slice(0, -1)], ids.length - 1);
      const errors = next_logits.map((value, i) => Math.abs(value - logits[0]![i]!));
      expect(Math.max(...errors)).toBeLessThan(1e-3);
      const choices = logits.map((row) => row.indexOf(Math.max(...row)));
      const wrong = greedy.filter((token, i) => greedy_gaps[i]! > 1e-3 && choices[i] !== token);
      expect(wrong).toEqual([]);
    }
    await checkpoint.close();
  });
});

describe('the bundled model', () => {
  it('continues a prompt as the reference does, which needs the rows of q and k in the right order', async () => {
    const golden = JSON.parse(
      readFileSync(new URL('../../fixtures/golden/smollm2-greedy.json', import.meta.url), 'utf8'),
    ) as { cases: readonly { ids: readonly number[]; greedy: readonly number[]; logprobs: readonly number[] }[] };
    const { ids, greedy, logprobs } = golden.cases[0]!;
    const path = new URL('../../../models/SmolLM2-135M-Instruct.Q4_1.gguf', import.meta.url).pathname;
    const checkpoint = await openCheckpoint(path);
    const logits = await referenceLogits(checkpoint, [...ids, ...greedy.slice(0, 3)], ids.length - 1);
    await checkpoint.close();
    logits.forEach((row, i) => {
      const max = row.reduce((a, b) => Math.max(a, b));
      expect(row.indexOf(max)).toBe(greedy[i]);
      const logprob = -Math.log(row.reduce((sum, value) => sum + Math.exp(value - max), 0));
      expect(logprob).toBeCloseTo(logprobs[i]!, 2);
    });
  });
});
