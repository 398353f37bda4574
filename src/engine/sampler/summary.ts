/**
 * Drawing from a row without looking at all of it. A device that sums a row up in chunks of neighbouring tokens tells
 * where the probability lies; only chunks that matter are read.
 */
import type { RowSummaries } from '../../model/runner.js';
import type { SamplingParams, TokenId } from '../protocol.js';
import { expNegative, FARTHEST } from './exponential.js';
import { argmax, type Cut, TopSelection } from './selection.js';

/** One row of `RowSummaries`. */
export class RowSummary {
  readonly #selection = new TopSelection();
  readonly #cut: Cut = { value: 0, ties: 0 };
  #size = 0;
  #maxima: Float32Array = new Float32Array(0);
  #masses: Float32Array = new Float32Array(0);

  /** Looks at one row; holds until the arrays change. */
  at(summaries: RowSummaries, row: number): this {
    const { maxima, masses, chunkSize, chunks } = summaries;
    this.#size = chunkSize;
    this.#maxima = maxima.subarray(row * chunks, (row + 1) * chunks);
    this.#masses = masses.subarray(row * chunks, (row + 1) * chunks);
    return this;
  }

  /** The largest logit; not finite when the row has anything that is not. */
  get maximum(): number {
    const best = argmax(this.#maxima, this.#maxima.length);
    return best < 0 || !this.#maxima.every(Number.isFinite) ? Number.NaN : this.#maxima[best]!;
  }

  /**
   * The token whose share of the whole distribution holds `random`, 0 <= random < 1: first the chunk, then the token in it.
   * @param row f32 [vocabSize] of finite logits
   */
  draw(row: Float32Array, maximum: number, temperature: number, random: number): TokenId {
    const masses = this.#masses;
    let total = 0;
    for (let c = 0; c < masses.length; c++) total += masses[c]!;
    let target = random * total;
    let chunk = 0;
    // The last chunk with any mass catches what rounding leaves over.
    for (let c = 0; c < masses.length; c++) {
      if (masses[c]! === 0) continue;
      chunk = c;
      if (target < masses[c]!) break;
      target -= masses[c]!;
    }
    const start = chunk * this.#size;
    const scale = 1 / temperature;
    let weight = 0;
    for (let i = start; i < start + this.#size; i++) weight += weigh(maximum, row[i]!, scale);
    target *= weight / masses[chunk]!;
    let last = start;
    for (let i = start; i < start + this.#size; i++) {
      const own = weigh(maximum, row[i]!, scale);
      if (own === 0) continue;
      last = i;
      if (target < own) break;
      target -= own;
    }
    return last;
  }

  /** A logit below which top-k and min-p leave nothing; -Infinity when neither cuts. */
  lowest(maximum: number, { topK, minP, temperature }: SamplingParams): number {
    let lowest = Number.NEGATIVE_INFINITY;
    if (topK > 0 && topK <= this.#maxima.length) {
      // As many tokens as chunks are at least as large as the k-th largest of their maxima.
      this.#selection.find(this.#maxima, this.#maxima.length, maximum, topK, this.#cut);
      lowest = this.#cut.value;
    }
    return minP > 0 ? Math.max(lowest, maximum + temperature * Math.log(minP)) : lowest;
  }

  /** How many times the likeliest token's weight the weights of all tokens sum to. */
  total(row: Float32Array, maximum: number, temperature: number): number {
    const chunk = this.#maxima.indexOf(maximum);
    let weight = 0;
    for (let i = chunk * this.#size; i < (chunk + 1) * this.#size; i++)
      weight += weigh(maximum, row[i]!, 1 / temperature);
    let mass = 0;
    for (let c = 0; c < this.#masses.length; c++) mass += this.#masses[c]!;
    return (weight * mass) / this.#masses[chunk]!;
  }

  /** Collects the tokens whose logit is at least `lowest`, rising; returns how many. */
  collect(row: Float32Array, lowest: number, tokens: Int32Array): number {
    let count = 0;
    for (let c = 0; c < this.#maxima.length; c++) {
      if (this.#maxima[c]! < lowest) continue;
      for (let i = c * this.#size; i < (c + 1) * this.#size; i++) if (row[i]! >= lowest) tokens[count++] = i;
    }
    return count;
  }
}

function weigh(maximum: number, logit: number, scale: number): number {
  const distance = (maximum - logit) * scale;
  return distance < FARTHEST ? expNegative(distance) : 0;
}
