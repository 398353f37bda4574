/** The logits of a step from those of its shares. */
import type { Likeliest, StepBatch, StepLogits } from '../../runner.js';
import type { Share } from './divide.js';

/**
 * @param found what was found for each of `shares`, which together are the step
 * @returns the logits in the step's order
 */
export function join(batch: StepBatch, shares: readonly Share[], found: readonly StepLogits[]): StepLogits {
  const { vocabSize } = found[0] as StepLogits;
  /** Where each logit row stands among those that leave the graph; -1 if only its likeliest token does. */
  const places = new Int32Array(batch.logitRows.length).fill(-1);
  let count = 0;
  batch.logitRows.forEach((_, i) => {
    if (batch.greedyRows?.[i] !== 1) places[i] = count++;
  });
  const rows = (width: number, of: (logits: StepLogits) => Float32Array | undefined): Float32Array => {
    const joined = new Float32Array(count * width);
    shares.forEach(({ logitIndices }, s) => {
      let own = 0;
      for (const index of logitIndices) {
        const place = places[index] as number;
        if (place < 0) continue;
        const row = there(of(found[s] as StepLogits)).subarray(own * width, (own + 1) * width);
        joined.set(row, place * width);
        own++;
      }
    });
    return joined;
  };
  const sizes = found.find(({ summaries }) => summaries !== undefined)?.summaries;
  return {
    vocabSize,
    values: rows(vocabSize, ({ values }) => values),
    ...(batch.greedyRows && { likeliest: joinLikeliest(batch, shares, found) }),
    ...(sizes && {
      summaries: {
        ...sizes,
        maxima: rows(sizes.chunks, ({ summaries }) => summaries?.maxima),
        masses: rows(sizes.chunks, ({ summaries }) => summaries?.masses),
      },
    }),
  };
}

function joinLikeliest(batch: StepBatch, shares: readonly Share[], found: readonly StepLogits[]): Likeliest {
  const tokens = new Int32Array(batch.logitRows.length);
  const logits = new Float32Array(batch.logitRows.length);
  shares.forEach(({ logitIndices }, s) => {
    const { likeliest } = found[s] as StepLogits;
    logitIndices.forEach((index, own) => {
      tokens[index] = there(likeliest).tokens[own] as number;
      logits[index] = there(likeliest).logits[own] as number;
    });
  });
  return { tokens, logits };
}

function there<T>(part: T | undefined): T {
  if (part === undefined) throw new Error('a replica left out logits that were asked for');
  return part;
}
