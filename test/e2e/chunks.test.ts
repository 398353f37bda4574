/** Prompts computed in chunks of any size, beside each other's decodes: the small models say what their reference says. */
import { describe, expect, it } from 'vitest';
import { childServer, fixtureModel } from '../support/child-server.js';
import { readExpected } from '../support/greedy.js';
import type { Json } from '../support/server.js';

describe.each(['tiny-llama', 'tiny-llama3-rope'])('%s', (model) => {
  describe.each(['5', '16', '512'])('with steps of at most %s tokens', (budget) => {
    const options = ['--precision', 'fp32', '--kv-cache-memory', '8MiB', '--max-num-batched-tokens', budget];
    const server = childServer(['--model', fixtureModel(model), ...options]);

    it('continues the prompts as the reference does', async () => {
      const cases = readExpected(model);
      const sampling = { temperature: 0, max_tokens: 40, ignore_eos: true, logprobs: 0, return_token_ids: true };
      const { choices }: Json = await server.completion({ prompt: cases.map(({ ids }) => ids), ...sampling });
      for (const [i, { greedy, greedy_logprobs }] of cases.entries()) {
        expect(choices[i].token_ids).toEqual(greedy);
        const computed: number[] = choices[i].logprobs.token_logprobs;
        expect(computed).toHaveLength(greedy.length);
        for (const [at, logprob] of computed.entries()) {
          expect(Math.abs(logprob - greedy_logprobs[at]!)).toBeLessThan(0.001);
        }
      }
    });
  });
});
