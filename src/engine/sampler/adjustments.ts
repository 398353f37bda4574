/**
 * Changes to single logits before a token is drawn, in vLLM's order: bad words, minimum length, bias, penalties. What a
 * request does not ask for costs nothing.
 */
import type { TokenId } from '../protocol.js';
import type { Sequence } from '../sequence.js';
import { TokenCounts } from './token-counts.js';

export class Adjustments {
  /** The tokens that are possible, rising and each once; undefined when all are. */
  readonly allowed: Int32Array | undefined;
  readonly #sequence: Sequence;
  readonly #counts: TokenCounts | undefined;
  readonly #always: boolean;

  constructor(sequence: Sequence, vocabSize: number) {
    const { allowedTokenIds, badWords, logitBias, ...penalties } = sequence.request.sampling;
    this.#sequence = sequence;
    if (allowedTokenIds.length > 0) {
      const known = allowedTokenIds.filter((token) => token >= 0 && token < vocabSize);
      this.allowed = Int32Array.from(new Set(known)).sort();
    }
    const repetition = penalties.repetitionPenalty !== 1;
    if (repetition || penalties.presencePenalty !== 0 || penalties.frequencyPenalty !== 0) {
      this.#counts = new TokenCounts(sequence, repetition);
    }
    this.#always = this.#counts !== undefined || badWords.length > 0 || logitBias.length > 0;
  }

  /** Whether `apply` changes anything for the next token. */
  get needed(): boolean {
    return this.#always || this.#tooShortToEnd;
  }

  get #tooShortToEnd(): boolean {
    return this.#sequence.generated < this.#sequence.request.minTokens;
  }

  /** Changes the logits of the sequence's next token in place; f32 [vocabSize]. */
  apply(logits: Float32Array): void {
    const { sampling, endTokens } = this.#sequence.request;
    for (const word of sampling.badWords) {
      const last = word.at(-1);
      if (last !== undefined && this.#endsWithAllButLast(word)) forbid(logits, last);
    }
    if (this.#tooShortToEnd) for (const token of endTokens) forbid(logits, token);
    for (const [token, bias] of sampling.logitBias) if (token in logits) logits[token]! += bias;
    this.#penalize(logits);
  }

  #endsWithAllButLast(word: readonly TokenId[]): boolean {
    const start = this.#sequence.length - (word.length - 1);
    if (start < 0) return false;
    for (let i = 0; i < word.length - 1; i++) {
      if (this.#sequence.token(start + i) !== word[i]) return false;
    }
    return true;
  }

  /** Repetition after Keskar et al. 2019 (CTRL), over prompt and output; presence and frequency as OpenAI, over the output. */
  #penalize(logits: Float32Array): void {
    const counts = this.#counts;
    if (counts === undefined) return;
    const { repetitionPenalty, presencePenalty, frequencyPenalty } = this.#sequence.request.sampling;
    counts.update(this.#sequence);
    for (let i = 0; i < counts.size; i++) {
      const token = counts.id(i);
      const generated = counts.generated(i);
      let logit = logits[token]!;
      logit = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty;
      if (generated > 0) logit -= frequencyPenalty * generated + presencePenalty;
      logits[token] = logit;
    }
  }
}

/** A token outside the vocabulary is impossible anyway. */
function forbid(logits: Float32Array, token: TokenId): void {
  if (token in logits) logits[token] = Number.NEGATIVE_INFINITY;
}
