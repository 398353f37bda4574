/** A prompt as it is repeated in an answer: its text, and its tokens with their log probabilities. */
import type { TokenLogprobs } from '../engine/protocol.js';
import type { TextModel } from '../text/text-model.js';
import { type AlternativeEntry, alternative, finite } from './token-entries.js';

/** A token of a prompt; the first has no log probability, as nothing comes before it. */
export interface PromptEntry {
  readonly text: string;
  readonly logprob: number | null;
  readonly top: readonly AlternativeEntry[] | null;
}

/** One entry a token; joined, their texts are the prompt's. `logprobs` is in the order of the tokens. */
export function promptEntries(
  text: TextModel,
  tokens: Int32Array,
  logprobs: readonly (TokenLogprobs | null)[],
  skipSpecialTokens: boolean,
): PromptEntry[] {
  const detokenizer = text.detokenizer({ skipSpecialTokens });
  return Array.from(tokens, (token, i) => {
    const known = logprobs[i];
    return {
      text: detokenizer.push(token) + (i === tokens.length - 1 ? detokenizer.flush() : ''),
      logprob: known ? finite(known.logprob) : null,
      top: known ? known.top.map((other) => alternative(text, other)) : null,
    };
  });
}

/** vLLM's prompt_logprobs: for each token of the prompt null or {id: {logprob, rank, decoded_token}}. */
export function promptLogprobsJson(text: TextModel, logprobs: readonly (TokenLogprobs | null)[]): unknown[] {
  return logprobs.map((known) => {
    if (known === null) return null;
    const json: Record<string, { logprob: number; rank: number; decoded_token: string }> = {};
    const put = (token: number, logprob: number, rank: number) => {
      json[token] = { logprob: finite(logprob), rank, decoded_token: text.tokenText(token) };
    };
    for (const [i, other] of known.top.entries()) put(other.token, other.logprob, i + 1);
    put(known.token, known.logprob, known.rank);
    return json;
  });
}
