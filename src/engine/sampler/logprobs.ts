/** Log probabilities of a row: the log-softmax of the logits as the model gave them. */
import type { TokenId, TokenLogprobs } from '../protocol.js';
import { expNegative, FARTHEST } from './exponential.js';
import { argmax, type Cut, TopSelection } from './selection.js';

/** Stands for what is impossible, since JSON knows no infinity; the value vLLM uses. */
export const LOWEST_LOGPROB = -9999;

export class Logprobs {
  readonly #selection = new TopSelection();
  readonly #cut: Cut = { value: 0, ties: 0 };

  /**
   * @param logits f32 [vocabSize]
   * @param alternatives how many of the likeliest tokens to list
   */
  of(logits: Float32Array, token: TokenId, alternatives: number): TokenLogprobs {
    const best = argmax(logits, logits.length);
    if (best < 0) return { token, logprob: LOWEST_LOGPROB, rank: 1, top: [] };
    const maximum = logits[best]!;
    const normalizer = logSumExp(logits, maximum);
    return {
      token,
      logprob: finite(logits[token]!, normalizer),
      rank: rankOf(logits, logits[token]!, maximum),
      top: this.#top(logits, maximum, alternatives).map((id) => ({
        token: id,
        logprob: finite(logits[id]!, normalizer),
      })),
    };
  }

  #top(logits: Float32Array, maximum: number, count: number): TokenId[] {
    if (count === 0) return [];
    const cut = this.#cut;
    this.#selection.find(logits, logits.length, maximum, count, cut);
    const tokens: TokenId[] = [];
    let ties = cut.ties;
    for (let i = 0; i < logits.length; i++) {
      const logit = logits[i]!;
      if (logit > cut.value ? logit <= maximum : logit === cut.value && ties-- > 0) tokens.push(i);
    }
    return tokens.sort((a, b) => logits[b]! - logits[a]! || a - b);
  }
}

function finite(logit: number, normalizer: number): number {
  return Number.isFinite(logit) ? Math.max(logit - normalizer, LOWEST_LOGPROB) : LOWEST_LOGPROB;
}

/** One more than the finite logits above `logit`; what is not finite itself comes after all that are. */
function rankOf(logits: Float32Array, logit: number, maximum: number): number {
  const bound = Number.isFinite(logit) ? logit : Number.NEGATIVE_INFINITY;
  let above = 0;
  for (let i = 0; i < logits.length; i++) if (logits[i]! > bound && logits[i]! <= maximum) above++;
  return above + 1;
}

/** Over the finite logits, of which `maximum` is the largest. */
function logSumExp(logits: Float32Array, maximum: number): number {
  let sum = 0;
  for (let i = 0; i < logits.length; i++) {
    const distance = maximum - logits[i]!;
    if (distance >= 0 && distance < FARTHEST) sum += expNegative(distance);
  }
  return maximum + Math.log(sum);
}
