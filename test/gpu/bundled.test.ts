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
  const expected = cases.slice(0, 2).map(
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
    // Most tokens as one prefill, the last as decodes.
    const options = { chunk: 512, known: (index: number) => expected[index]!.ids.length + 12 };
    expect(await wrongChoices(runner, expected, 0.3, options)).toEqual([]);
  } finally {
    await runner.dispose();
  }
});
