/** Requests as the engine takes them, with what a benchmark does not care about filled in. */
import type { NewRequest } from '../../src/engine/client.js';
import type { SamplingParams } from '../../src/engine/protocol.js';

const GREEDY: SamplingParams = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: 0,
  presencePenalty: 0,
  frequencyPenalty: 0,
  repetitionPenalty: 1,
  logitBias: [],
  allowedTokenIds: [],
  badWords: [],
};

/** Greedy unless `sampling` says otherwise; no token ends it. */
export function requestOf(
  prompt: ArrayLike<number>,
  maxTokens: number,
  sampling: Partial<SamplingParams> = {},
): NewRequest {
  return {
    prompt: Int32Array.from(prompt),
    choices: 1,
    sampling: { ...GREEDY, ...sampling },
    maxTokens,
    minTokens: 0,
    endTokens: [],
    logprobs: undefined,
    promptLogprobs: undefined,
    priority: 0,
    user: '',
    cacheSalt: '',
  };
}
