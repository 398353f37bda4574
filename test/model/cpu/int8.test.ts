/** The rotated 8-bit lowering of every family that takes it, against fp32. */
import { describe, expect, it } from 'vitest';
import { productsAreExact } from '../../../src/model/backends/cpu/processor.js';
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

/** Logits after each of the sequences, all in one step, or in as many as they have tokens. */
async function logitsOf(
  runner: ModelRunner,
  sequences: readonly (readonly number[])[],
  chunk = 512,
): Promise<Float32Array[]> {
  return (await continueGreedily(runner, sequences, 1, chunk)).map(({ firstLogits }) => firstLogits);
}

const norm = (values: Float32Array): number => Math.hypot(...values);

it('is for every family but those whose norms stand between a product and the residual', () => {
  expect(models.filter(({ rotates }) => !rotates).map(({ name }) => name)).toEqual(['tiny-gemma3']);
});

describe.each(models.filter(({ rotates }) => rotates))('$name, wider', ({ name, path }) => {
  const exact = tinyRunner(path, 4 * 2 ** 20);
  const rounded = tinyRunner(path, 4 * 2 ** 20, 'int8');

  /** Relative errors of the sequences' logits. */
  const errors = (expected: readonly Float32Array[], actual: readonly Float32Array[]) =>
    expected.map((row, i) => norm(row.map((x, token) => x - actual[i]![token]!)) / norm(row));

  // Of numbers drawn at random all count alike, so that their rounding shows more than a trained model's.
  it.each([
    { chunk: 512, label: 'whole sequences' },
    { chunk: 1, label: 'one token at a time' },
  ])('is close to fp32, $label', async ({ chunk }) => {
    const found = errors(await logitsOf(exact(), SEQUENCES), await logitsOf(rounded(), SEQUENCES, chunk));
    expect(Math.max(...found)).toBeLessThan(0.08);
  });

  // Elsewhere there is no cache of 8 bits.
  if (productsAreExact()) {
    const unevenPath = widerModel(name, directory, true);
    const inHalf = tinyRunner(unevenPath, 4 * 2 ** 20, 'int8', { kvCacheDtype: 'float16' });
    const inEight = tinyRunner(unevenPath, 4 * 2 ** 20, 'int8', { kvCacheDtype: 'int8' });

    it('keeps keys of which some channels are much larger than others in 8 bits', async () => {
      const found = errors(await logitsOf(inHalf(), SEQUENCES, 1), await logitsOf(inEight(), SEQUENCES, 1));
      expect(found.reduce((a, b) => a + b) / found.length).toBeLessThan(0.07);
    });
  }

  it('gives a sequence the same bits alone and among others', async () => {
    const together = await logitsOf(rounded(), SEQUENCES);
    for (const [i, tokens] of SEQUENCES.entries()) {
      expect((await logitsOf(rounded(), [tokens]))[0]).toEqual(together[i]);
    }
  });
});
