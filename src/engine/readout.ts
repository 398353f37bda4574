/** From the logits of a step to its tokens: draws them, and the log probabilities that requests ask for. */
import type { Likeliest, StepBatch, StepLogits } from '../model/runner.js';
import type { Choice } from './choice.js';
import type { EngineFault } from './protocol.js';
import { Logprobs } from './sampler/logprobs.js';
import { Sampler } from './sampler/sampler.js';
import { RowSummary } from './sampler/summary.js';
import { type Plan, type PlannedChunk, scoresPrompt } from './scheduler/plan.js';
import { NO_TOKEN } from './scheduler/scheduler.js';
import type { Sequence } from './sequence.js';

const NOTHING_FINITE: EngineFault = {
  code: 'step_failed',
  message: 'The model gave no finite logit for the next token.',
};

const NOT_FINITE: EngineFault = {
  code: 'step_failed',
  message: 'The model gave a logit for the next token that is not finite.',
};

export class Readout {
  readonly #vocabSize: number;
  readonly #sampler: Sampler;
  readonly #logprobs = new Logprobs();
  readonly #summary = new RowSummary();
  #sampled = new Int32Array(64);

  constructor(vocabSize: number) {
    this.#vocabSize = vocabSize;
    this.#sampler = new Sampler(vocabSize);
  }

  /**
   * Fills in the step's part of each choice; one whose token cannot be drawn gets a fault instead. Passes over sequences
   * that were finished while the step ran.
   * @param batch as `BatchBuilder` laid it out
   * @returns what `Scheduler.commit` takes; valid until the next call
   */
  read(plan: Plan, batch: StepBatch, logits: StepLogits, choiceOf: (sequence: Sequence) => Choice): Int32Array {
    const { chunks } = plan;
    if (logits.vocabSize !== this.#vocabSize)
      throw new Error(`rows of ${logits.vocabSize} logits, not ${this.#vocabSize}`);
    if (this.#sampled.length < chunks.length) this.#sampled = new Int32Array(chunks.length * 2);
    // Rows that the device reduced to their likeliest token have no place among the whole ones.
    const { likeliest } = logits;
    let row = 0;
    let whole = 0;
    // Where the last chunk with tokens samples from; its forks do as well.
    let sample = 0;
    let wholeSample = 0;
    let reduced = false;
    for (let i = 0; i < chunks.length; i++) {
      const chunk = chunks[i]!;
      const { sequence, scoreCount, samples, forkOf } = chunk;
      const scores = whole;
      if (forkOf === undefined) {
        sample = row + scoreCount;
        wholeSample = whole + scoreCount;
        reduced = samples && likeliest !== undefined && batch.greedyRows?.[sample] === 1;
        row = sample + (samples ? 1 : 0);
        whole = wholeSample + (samples && !reduced ? 1 : 0);
      }
      this.#sampled[i] = NO_TOKEN;
      if (sequence.state === 'finished') continue;
      const choice = choiceOf(sequence);
      if (scoresPrompt(sequence)) this.#scorePrompt(chunk, choice, logits, scores);
      if (!samples) continue;
      if (reduced) this.#sampled[i] = this.#take(choice, likeliest!, sample);
      else this.#sampled[i] = this.#draw(choice, logits, wholeSample);
    }
    return this.#sampled;
  }

  #scorePrompt(
    { sequence, scoreStart, scoreCount }: PlannedChunk,
    choice: Choice,
    logits: StepLogits,
    row: number,
  ): void {
    const entries = [];
    if (sequence.promptScored === 0) {
      entries.push(null);
      sequence.promptScored = 1;
    }
    for (let i = 0; i < scoreCount; i++) {
      const token = sequence.token(scoreStart + i + 1);
      entries.push(this.#logprobs.of(this.#row(logits, row + i), token, sequence.request.promptLogprobs ?? 0));
    }
    sequence.promptScored += scoreCount;
    if (entries.length > 0) choice.promptLogprobs = entries;
  }

  #take(choice: Choice, likeliest: Likeliest, row: number): number {
    if (!Number.isFinite(likeliest.logits[row])) {
      choice.fault = NOT_FINITE;
      return NO_TOKEN;
    }
    choice.token = likeliest.tokens[row]!;
    return choice.token;
  }

  #draw(choice: Choice, logits: StepLogits, index: number): number {
    const { sequence } = choice;
    const row = this.#row(logits, index);
    const summary = logits.summaries && this.#summary.at(logits.summaries, index);
    const token = this.#sampler.draw(row, sequence, choice.adjustments, summary);
    if (token === undefined) {
      choice.fault = NOTHING_FINITE;
      return NO_TOKEN;
    }
    choice.token = token;
    const { logprobs } = sequence.request;
    if (logprobs !== undefined) choice.logprobs = this.#logprobs.of(row, token, logprobs);
    return token;
  }

  #row(logits: StepLogits, row: number): Float32Array {
    return logits.values.subarray(row * this.#vocabSize, (row + 1) * this.#vocabSize);
  }
}
