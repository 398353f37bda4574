/** What shares a step where prompts and decodes have steps of their own. */
import { describe, expect, it } from 'vitest';
import { setUpScheduling } from '../../support/scheduling.js';

const LIMITS = { maxNumSeqs: 4, maxNumBatchedTokens: 32, numBlocks: 64, blockSize: 4, mixedSteps: false };

type Setup = ReturnType<typeof setUpScheduling>;

/** Tokens that each sequence of a step computes. */
const counts = (step: ReturnType<Setup['step']>) => step.map(({ count }) => count);

/** Two sequences that decode. */
function decoding(changes: Partial<typeof LIMITS> = {}): Setup {
  const setup = setUpScheduling({ ...LIMITS, ...changes });
  setup.add(6, 40);
  setup.add(6, 40);
  expect(counts(setup.step())).toEqual([6, 6]);
  expect(counts(setup.step())).toEqual([1, 1]);
  return setup;
}

describe('steps of prompts and of decodes', () => {
  it('take turns while there are both', () => {
    const { add, step } = decoding();
    const prompt = add(80, 1);
    expect(counts(step())).toEqual([32]);
    expect(counts(step())).toEqual([1, 1]);
    expect(counts(step())).toEqual([32]);
    expect(counts(step())).toEqual([1, 1]);
    expect(counts(step())).toEqual([16]);
    expect(prompt.generated).toBe(1);
    expect(counts(step())).toEqual([1, 1]);
    expect(counts(step())).toEqual([1, 1]);
  });

  it('give a prompt the whole budget, as many as fit', () => {
    const { add, step } = decoding();
    const prompts = [add(16, 5), add(16, 5)];
    expect(counts(step())).toEqual([16, 16]);
    expect(prompts.map(({ generated }) => generated)).toEqual([1, 1]);
    expect(counts(step())).toEqual([1, 1, 1, 1]);
  });

  it('follow each other at once where there is nothing else', () => {
    const { add, step } = setUpScheduling(LIMITS);
    add(80, 2);
    expect([counts(step()), counts(step()), counts(step()), counts(step())]).toEqual([[32], [32], [16], [1]]);
  });

  it('are of decodes as long as no prompt can start', () => {
    const { add, step } = decoding({ maxNumSeqs: 2 });
    add(10, 1);
    for (let i = 0; i < 3; i++) expect(counts(step())).toEqual([1, 1]);
    const full = decoding({ numBlocks: 10 });
    full.add(20, 1);
    for (let i = 0; i < 3; i++) expect(counts(full.step())).toEqual([1, 1]);
  });

  it('are the same step unless they are told apart', () => {
    const { add, step } = decoding({ mixedSteps: true });
    add(10, 1);
    expect(counts(step())).toEqual([1, 1, 10]);
  });
});
