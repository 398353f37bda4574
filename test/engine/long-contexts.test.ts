/**
 * Answers that run past a sliding window, or past the length that a model's positions were scaled from: what is wrong
 * only there shows in no short prompt. The reference computes every row anew, without a cache.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCheckpoint } from '../../src/model/formats/open.js';
import { loadModel } from '../../src/model/load.js';
import type { ModelRunner } from '../../src/model/runner.js';
import { requestOf, runScript } from '../support/engine.js';
import { copyModel } from '../support/model-directory.js';
import { referenceLogits } from '../support/reference-decoder.js';
import { temporaryDirectory } from '../support/temporary.js';

const window = { with: { sliding_window: 32 }, without: { sliding_window: 1024 } };
const rope = { rope_theta: 500_000 };
const scaled = { rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4 };
const scaling = {
  with: { rope_parameters: { ...rope, ...scaled, original_max_position_embeddings: 128 } },
  without: { rope_parameters: { ...rope, rope_type: 'default' } },
};

/** Each with what its configuration says, and with what is left when that is ignored. */
const models = [
  ['tiny-mistral', 'a window in every layer (case 65, mistral.rs#2094)', window],
  ['tiny-phi3', 'a window and packed weights (case 65)', window],
  ['tiny-gemma3', 'a window in some layers (case 65, mlxcel#405)', window],
  ['tiny-llama3-rope', 'scaled positions (case 64, llama.cpp#8676)', scaling],
] as const;

const prompt = Array.from({ length: 100 }, (_, i) => 3 + ((i * 37 + (i >> 3)) % 500));
const generated = 40;

function logprobs(logits: Float32Array): Float32Array {
  const most = Math.max(...logits);
  const normalizer = most + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
  return logits.map((logit) => logit - normalizer);
}

describe.each(models)('%s, %s', (name, _, config) => {
  const directory = temporaryDirectory();
  const path = join(directory, 'model');
  let runner: ModelRunner;
  /** Log probabilities of the tokens that follow the prompt, by the reference. */
  async function reference(model: string, tokens: readonly number[]): Promise<Float32Array[]> {
    const checkpoint = await openCheckpoint(model);
    const logits = await referenceLogits(checkpoint, [...prompt, ...tokens.slice(0, -1)], prompt.length - 1);
    await checkpoint.close();
    return logits.map(logprobs);
  }

  beforeAll(async () => {
    process.env['SLUICE_CACHE_DIR'] = join(directory, 'cache');
    copyModel(name, path, { config: config.with });
    const options = { device: 'cpu', precision: 'fp32', threads: 1, kvCacheMemory: 2 ** 21, blockSize: 16 } as const;
    const limits = { maxNumSeqs: 8, maxNumBatchedTokens: 512, maxModelLen: undefined };
    ({ runner } = await loadModel({ model: path, ...options, ...limits }, () => {}));
  });
  afterAll(() => runner.dispose());

  it.each([512, 16])('is the reference’s answer, in steps of %i tokens and after a prefix hit', async (budget) => {
    const request = (id: number) => requestOf({ id, prompt, maxTokens: generated, logprobs: 0 });
    const { records } = await runScript(
      runner,
      { maxNumSeqs: 8, maxNumBatchedTokens: budget, maxModelLen: 1024 },
      // The second comes when the first has ended.
      new Map([0, 200].map((turn) => [turn, [{ kind: 'generate', request: request(turn) }]])),
    );
    const [first, second] = [records.get('0/0')!, records.get('200/0')!];
    expect([first.outputs[0]!.cachedTokens, second.outputs[0]!.cachedTokens]).toEqual([0, 96]);
    const expected = await reference(path, first.tokens);
    for (const { outputs, tokens } of [first, second]) {
      expect(tokens).toEqual(first.tokens);
      expect(tokens).toHaveLength(generated);
      const own = outputs.flatMap((output) => output.logprobs ?? []).map(({ logprob }) => logprob);
      for (const [i, token] of tokens.entries()) {
        expect(Math.abs(own[i]! - expected[i]![token]!)).toBeLessThan(1e-3);
        expect(expected[i]![token]).toBeGreaterThan(Math.max(...expected[i]!) - 1e-3);
      }
    }
  });

  it('would be another if that were ignored', async () => {
    const other = copyModel(name, join(directory, 'other'), { config: config.without });
    const tokens = prompt.slice(0, generated);
    const [right, wrong] = [await reference(path, tokens), await reference(other, tokens)];
    for (const [i, row] of right.entries()) {
      expect(Math.max(...row.map((value, token) => Math.abs(value - wrong[i]![token]!)))).toBeGreaterThan(0.05);
    }
  });
});
