/** The rotated 8-bit lowering of every family that takes it, against fp32. */
import { describe, expect, it } from 'vitest';
import { canRotate } from '../../../src/model/backends/cpu/rotation.js';
import { openCheckpoint } from '../../../src/model/formats/open.js';
import type { ModelRunner } from '../../../src/model/runner.js';
import { continueGreedily } from '../../support/greedy.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { tinyModels, tinyRunner, tokensOf } from '../../support/tiny-model.js';
import { widerModel } from '../../support/wider-model.js';

const directory = temporaryDirectory();
const models = await Promise.all(
  tinyModels.map(async (name) => {
    const path = widerModel(name, directory);
    const checkpoint = await openCheckpoint(path);
    await checkpoint.close();
    return { name, path, rotates: canRotate(checkpoint.architecture) };
  }),
);

const SEQUENCES = [40, 17, 3].map((length, sequence) => tokensOf(sequence, length));

/** Logits after each of the sequences, all in one step. */
async function logitsOf(runner: ModelRunner, sequences: readonly (readonly number[])[]): Promise<Float32Array[]> {
  return (await continueGreedily(runner, sequences, 1, 512)).map(({ firstLogits }) => firstLogits);
}

const norm = (values: Float32Array): number => Math.hypot(...values);

it('is for every family but those whose norms stand between a product and the residual', () => {
  expect(models.filter(({ rotates }) => !rotates).map(({ name }) => name)).toEqual(['tiny-gemma3']);
});

describe.each(models.filter(({ rotates }) => rotates))('$name, wider', ({ path }) => {
  const exact = tinyRunner(path, 4 * 2 ** 20);
  const rounded = tinyRunner(path, 4 * 2 ** 20, 'int8');

  it('is close to fp32', async () => {
    const actual = await logitsOf(rounded(), SEQUENCES);
    for (const [i, row] of (await logitsOf(exact(), SEQUENCES)).entries()) {
      const error = norm(row.map((x, token) => x - actual[i]![token]!)) / norm(row);
      // Of numbers drawn at random all count alike, so that their rounding shows more than a trained model's.
      expect(error).toBeLessThan(0.08);
    }
  });

  it('gives a sequence the same bits alone and among others', async () => {
    const together = await logitsOf(rounded(), SEQUENCES);
    for (const [i, tokens] of SEQUENCES.entries()) {
      expect((await logitsOf(rounded(), [tokens]))[0]).toEqual(together[i]);
    }
  });
});
