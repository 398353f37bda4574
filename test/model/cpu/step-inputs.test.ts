/** Which steps take the branch for short decodes alone: results are the same in either, so that only this shows it. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ATTENTION_INPUTS } from '../../../src/model/backends/cpu/attention-inputs.js';
import { StepInputBuilder } from '../../../src/model/backends/cpu/step-inputs.js';
import { openCheckpoint } from '../../../src/model/formats/open.js';
import { TINY_MODELS } from '../../support/model-directory.js';

const BLOCK = 16;
const checkpoint = await openCheckpoint(join(TINY_MODELS, 'tiny-llama'));
const builder = new StepInputBuilder(BLOCK, checkpoint.architecture);
await checkpoint.close();

it.each([
  { step: 'decodes of one segment', pasts: [0, 100, 320], counts: [1, 1, 1], short: true },
  { step: 'a decode of two segments', pasts: [100, 321], counts: [1, 1], short: false },
  { step: 'a decode beside a chunk', pasts: [100, 0], counts: [1, 5], short: false },
  { step: 'a chunk', pasts: [0], counts: [5], short: false },
  { step: 'a prompt of one token', pasts: [0], counts: [1], generated: [0], short: false },
])('$step', ({ pasts, counts, generated, short }) => {
  const cumulative = [0];
  for (const count of counts) cumulative.push(cumulative.at(-1)! + count);
  const maxBlocks = 24;
  const { feeds } = builder.build({
    tokens: new Int32Array(cumulative.at(-1)!),
    cumulativeLengths: Int32Array.from(cumulative),
    pastLengths: Int32Array.from(pasts),
    blockTables: Int32Array.from({ length: pasts.length * maxBlocks }, (_, i) => i),
    maxBlocks,
    logitRows: Int32Array.of(0),
    ...(generated !== undefined && { generated: Uint8Array.from(generated) }),
  });
  expect(feeds[ATTENTION_INPUTS.hasOnlyShortDecodes]?.data).toEqual(Uint8Array.of(short ? 1 : 0));
});
