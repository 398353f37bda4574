/** The logits of a step from those of its shares. */
import type { Likeliest, StepBatch, StepLogits } from '../../runner.js';
import type { Share } from './divide.js';

export class LogitsJoiner {
  #values = new Float32Array(0);

  /**
   * @param found what was found for each of `shares`, which together are the step
   * @returns the logits in the step's order; they hold until the next call
   */
  join(batch: StepBatch, shares: readonly Share[], found: readonly StepLogits[]): StepLogits {
    const { vocabSize } = found[0] as StepLogits;
    /** Where each logit row stands among those that leave the graph; -1 if only its likeliest token does. */
    const places = new Int32Array(batch.logitRows.length).fill(-1);
    let count = 0;
    batch.logitRows.forEach((_, i) => {
      if (batch.greedyRows?.[i] !== 1) places[i] = count++;
    });
    const rows = (joined: Float32Array, width: number, of: (logits: StepLogits) => Float32Array | undefined) => {
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
      values: rows(this.#room(count * vocabSize), vocabSize, ({ values }) => values),
      ...(batch.greedyRows && { likeliest: joinLikeliest(batch, shares, found) }),
      ...(sizes && {
        summaries: {
          ...sizes,
          maxima: rows(new Float32Array(count * sizes.chunks), sizes.chunks, ({ summaries }) => summaries?.maxima),
          masses: rows(new Float32Array(count * sizes.chunks), sizes.chunks, ({ summaries }) => summaries?.masses),
        },
      }),
    };
  }

  /** Whole rows are megabytes a step; a buffer for them is kept, and only grows. */
  #room(length: number): Float32Array {
    if (length > this.#values.length) this.#values = new Float32Array(Math.ceil(length * 1.5));
    return this.#values.subarray(0, length);
  }
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
