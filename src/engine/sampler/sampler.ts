/**
 * Draws the next token of a sequence from its row of logits. The result depends on (seed, choice, position) and the row
 * alone, never on what else is in the batch.
 */
import type { SamplingParams, TokenId } from '../protocol.js';
import type { Sequence } from '../sequence.js';
import type { Adjustments } from './adjustments.js';
import { expNegative, FARTHEST } from './exponential.js';
import { uniform } from './philox.js';
import { argmax, type Cut, findMass, TopSelection } from './selection.js';
import type { RowSummary } from './summary.js';

/** Temperatures below are greedy, as in vLLM: dividing by them overflows. */
const LOWEST_TEMPERATURE = 1e-5;

/** Whether the likeliest token is taken, whatever the random numbers. */
export function isGreedy(params: SamplingParams): boolean {
  return params.temperature < LOWEST_TEMPERATURE;
}

/** Holds the buffers for one vocabulary; serves one row at a time. */
export class Sampler {
  readonly #selection = new TopSelection();
  readonly #cut: Cut = { value: 0, ties: 0 };
  readonly #adjusted: Float32Array;
  readonly #allowed: Float32Array;
  readonly #candidates: Int32Array;
  /** The candidates: their indexes, rising, and their weights or the running sums of these. */
  readonly #indexes: Int32Array;
  readonly #weights: Float64Array;
  readonly #scratch: Float64Array;
  #count = 0;
  #total = 0;

  constructor(vocabSize: number) {
    this.#adjusted = new Float32Array(vocabSize);
    this.#allowed = new Float32Array(vocabSize);
    this.#candidates = new Int32Array(vocabSize);
    this.#indexes = new Int32Array(vocabSize);
    this.#weights = new Float64Array(vocabSize);
    this.#scratch = new Float64Array(vocabSize);
  }

  /**
   * The token for the position behind the sequence's last. NaN and infinite logits are impossible tokens. Where the
   * adjustments leave nothing possible, they are given up: the likeliest allowed token is taken, or else the likeliest.
   * @param row f32 [vocabSize], not changed
   * @param summary of the row, where the device gave one
   * @returns undefined when no logit is finite
   */
  draw(row: Float32Array, sequence: Sequence, adjustments: Adjustments, summary?: RowSummary): TokenId | undefined {
    const { sampling } = sequence.request;
    const { allowed } = adjustments;
    if (summary !== undefined && !isGreedy(sampling) && allowed === undefined && !adjustments.needed) {
      const token = this.#drawSummed(row, sequence, summary);
      if (token !== undefined) return token;
    }
    let logits = row;
    if (adjustments.needed) {
      logits = this.#adjusted;
      logits.set(row);
      adjustments.apply(logits);
    }
    let length = row.length;
    if (allowed !== undefined) {
      logits = this.#pick(logits, allowed);
      length = allowed.length;
    }
    const best = argmax(logits, length);
    if (best < 0) return this.#likeliest(row, allowed);
    const index = isGreedy(sampling)
      ? best
      : this.#drawIndex(
          logits,
          length,
          logits[best]!,
          sampling,
          uniform(sampling.seed, sequence.choice, sequence.length),
        );
    return allowed === undefined ? index : allowed[index]!;
  }

  /** Reads only the chunks that can matter; undefined when the row is not finite or nothing can be left out. */
  #drawSummed(row: Float32Array, sequence: Sequence, summary: RowSummary): TokenId | undefined {
    const { sampling } = sequence.request;
    const maximum = summary.maximum;
    if (!Number.isFinite(maximum)) return undefined;
    const random = uniform(sampling.seed, sequence.choice, sequence.length);
    const { temperature, topK, topP } = sampling;
    let cut = summary.lowest(maximum, sampling);
    let total: number | undefined;
    if (cut === Number.NEGATIVE_INFINITY) {
      if (topK > 0) return undefined;
      if (topP >= 1) return summary.draw(row, maximum, temperature, random);
      // Tokens below an even share of what the nucleus leaves out cannot be in it.
      total = summary.total(row, maximum, temperature);
      cut = maximum + temperature * Math.log(((1 - topP) * total) / row.length);
    }
    const count = summary.collect(row, cut, this.#candidates);
    const logits = this.#pick(row, this.#candidates.subarray(0, count));
    return this.#candidates[this.#drawIndex(logits, count, maximum, sampling, random, total)];
  }

  #pick(logits: Float32Array, tokens: Int32Array): Float32Array {
    for (let i = 0; i < tokens.length; i++) this.#allowed[i] = logits[tokens[i]!]!;
    return this.#allowed;
  }

  #likeliest(row: Float32Array, allowed: Int32Array | undefined): TokenId | undefined {
    if (allowed !== undefined) {
      const best = argmax(this.#pick(row, allowed), allowed.length);
      if (best >= 0) return allowed[best]!;
    }
    const best = argmax(row, row.length);
    return best < 0 ? undefined : best;
  }

  /** @param total weight of all tokens, relative to the likeliest, where `logits` leaves some of them out */
  #drawIndex(
    logits: Float32Array,
    length: number,
    maximum: number,
    params: SamplingParams,
    random: number,
    total?: number,
  ): number {
    const nucleus = params.topP < 1;
    this.#setCut(logits, length, maximum, params);
    this.#weigh(logits, length, maximum, 1 / params.temperature, !nucleus);
    if (nucleus) this.#keepNucleus(params.topP, total);
    return this.#indexes[this.#search(random * this.#total)]!;
  }

  /** The border that top-k and min-p draw, whichever leaves less. */
  #setCut(logits: Float32Array, length: number, maximum: number, { topK, minP, temperature }: SamplingParams): void {
    const cut = this.#cut;
    cut.value = Number.NEGATIVE_INFINITY;
    cut.ties = 0;
    if (topK > 0 && topK < length) this.#selection.find(logits, length, maximum, topK, cut);
    const lowest = maximum + temperature * Math.log(minP);
    if (minP > 0 && lowest > cut.value) {
      cut.value = lowest;
      cut.ties = length;
    }
  }

  /** Collects what the cut lets in, with its weight relative to the likeliest token, or the weights' running sum. */
  #weigh(logits: Float32Array, length: number, maximum: number, scale: number, running: boolean): void {
    const { value: lowest } = this.#cut;
    const indexes = this.#indexes;
    const weights = this.#weights;
    let { ties } = this.#cut;
    let count = 0;
    let total = 0;
    for (let i = 0; i < length; i++) {
      const logit = logits[i]!;
      if (!(logit > lowest || (logit === lowest && ties-- > 0))) continue;
      const distance = (maximum - logit) * scale;
      if (!(distance >= 0 && distance < FARTHEST)) continue;
      const weight = expNegative(distance);
      total += weight;
      indexes[count] = i;
      weights[count++] = running ? total : weight;
    }
    this.#count = count;
    this.#total = total;
  }

  /** Leaves the smallest set of candidates whose share of the weight reaches p, and the running sums of their weights. */
  #keepNucleus(p: number, whole: number | undefined): void {
    const cut = this.#cut;
    const indexes = this.#indexes;
    const weights = this.#weights;
    // All weights below this together fall short of the share that stays outside, so none of them can be inside.
    const least = whole === undefined ? Math.min(1, ((1 - p) * this.#total) / this.#count) : 0;
    let length = 0;
    for (let i = 0; i < this.#count; i++) if (weights[i]! >= least) this.#scratch[length++] = weights[i]!;
    findMass(this.#scratch, length, p * (whole ?? this.#total), cut);

    let { ties } = cut;
    let count = 0;
    let total = 0;
    for (let i = 0; i < this.#count; i++) {
      const weight = weights[i]!;
      if (!(weight > cut.value || (weight === cut.value && ties-- > 0))) continue;
      total += weight;
      indexes[count] = indexes[i]!;
      weights[count++] = total;
    }
    this.#count = count;
    this.#total = total;
  }

  /** The first candidate whose running sum exceeds the target. */
  #search(target: number): number {
    let low = 0;
    let high = this.#count - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#weights[middle]! > target) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
