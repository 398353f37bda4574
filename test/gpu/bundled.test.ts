/** The model that comes with the package on the software driver: slow, but with the reference's tokens. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import type { ExpectedCase } from '../support/greedy.js';
import { wrongChoices } from './support/follow.js';
import { loadOnDevice } from './support/models.js';

const MODEL = fileURLToPath(new URL('../../models/SmolLM2-135M-Instruct.Q4_1.gguf', import.meta.url));
const GOLDEN = fileURLToPath(new URL('../fixtures/golden/smollm2-greedy.json', import.meta.url));

interface GoldenCase {
  readonly prompt: string;
  readonly ids: number[];
  readonly greedy: number[];
  readonly logprobs: number[];
  readonly gaps: number[];
}

it('chooses the first 16 tokens of two golden prompts where it is no near-tie', { timeout: 600_000 }, async () => {
  const { cases } = JSON.parse(readFileSync(GOLDEN, 'utf8')) as { cases: GoldenCase[] };
  const shortest = cases.toSorted((a, b) => a.ids.length - b.ids.length).slice(0, 2);
  const expected = shortest.map(
    ({ prompt, ids, greedy, logprobs, gaps }): ExpectedCase => ({
      prompt,
      ids,
      next_logits: [],
      greedy: greedy.slice(0, 16),
      greedy_logprobs: logprobs,
      greedy_gaps: gaps,
    }),
  );
  const { runner, precision } = await loadOnDevice(MODEL);
  expect(precision).toBe('int8');
  try {
    // Row by row: the provider's kernel for several rows of 8-bit weights takes this driver half a minute a step. The
    // check at the start has been through it, with 40 rows.
    for (const c of expected) {
      expect(await wrongChoices(runner, [c], 0.3, { chunk: 1, known: () => 0 })).toEqual([]);
    }
  } finally {
    await runner.dispose();
  }
});
