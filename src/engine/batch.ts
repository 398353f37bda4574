/** Lays a plan out as the arrays that a model runner takes, in buffers that are kept from step to step. */
import type { StepBatch } from '../model/runner.js';
import { isGreedy } from './sampler/sampler.js';
import type { Plan } from './scheduler/plan.js';
import type { Sequence } from './sequence.js';

export class BatchBuilder {
  readonly #tokens = new Scratch();
  readonly #cumulativeLengths = new Scratch();
  readonly #pastLengths = new Scratch();
  readonly #blockTables = new Scratch();
  readonly #logitRows = new Scratch();
  #generated = new Uint8Array(64);
  #greedyRows = new Uint8Array(64);
  #temperatures = new Float32Array(64);

  /**
   * The arrays are views that hold until the next call. Logit rows come in the order of the plan's chunks; in each, first
   * those that score the prompt, then the one to sample from. Chunks without tokens have no rows.
   * @param greedy whether the likeliest token is all that is needed of a sequence's row
   */
  build(plan: Plan, greedy: (sequence: Sequence) => boolean): StepBatch {
    const { chunks } = plan;
    let sequences = 0;
    let maxBlocks = 1;
    let wanted = 0;
    for (const { sequence, count, scoreCount, samples } of chunks) {
      if (count === 0) continue;
      sequences++;
      maxBlocks = Math.max(maxBlocks, sequence.blocks.length);
      wanted += scoreCount + (samples ? 1 : 0);
    }
    const tokens = this.#tokens.view(plan.tokens);
    const cumulativeLengths = this.#cumulativeLengths.view(sequences + 1);
    const pastLengths = this.#pastLengths.view(sequences);
    const blockTables = this.#blockTables.view(sequences * maxBlocks).fill(0);
    const logitRows = this.#logitRows.view(wanted);

    if (this.#greedyRows.length < wanted) {
      this.#greedyRows = new Uint8Array(wanted * 2);
      this.#temperatures = new Float32Array(wanted * 2);
    }
    const greedyRows = this.#greedyRows.subarray(0, wanted).fill(0);
    const temperatures = this.#temperatures.subarray(0, wanted).fill(1);

    if (this.#generated.length < sequences) this.#generated = new Uint8Array(sequences * 2);
    const generated = this.#generated.subarray(0, sequences);

    let b = 0;
    let row = 0;
    let logits = 0;
    cumulativeLengths[0] = 0;
    for (const { sequence, start, count, scoreStart, scoreCount, samples } of chunks) {
      if (count === 0) continue;
      sequence.copyTokens(start, start + count, tokens, row);
      sequence.blocks.copyTo(blockTables, b * maxBlocks);
      pastLengths[b] = start;
      generated[b] = start >= sequence.promptLength ? 1 : 0;
      for (let i = 0; i < scoreCount; i++) logitRows[logits++] = row + scoreStart - start + i;
      row += count;
      cumulativeLengths[++b] = row;
      if (!samples) continue;
      greedyRows[logits] = greedy(sequence) ? 1 : 0;
      if (!isGreedy(sequence.request.sampling)) temperatures[logits] = sequence.request.sampling.temperature;
      logitRows[logits++] = row - 1;
    }
    return {
      tokens,
      cumulativeLengths,
      pastLengths,
      blockTables,
      maxBlocks,
      generated,
      logitRows,
      greedyRows,
      temperatures,
    };
  }
}

/** A buffer that only grows. */
class Scratch {
  #array = new Int32Array(64);

  view(length: number): Int32Array {
    if (length > this.#array.length) this.#array = new Int32Array(Math.ceil(length * 1.5));
    return this.#array.subarray(0, length);
  }
}
