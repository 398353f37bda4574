/** Requests as the engine takes them, with what a benchmark does not care about filled in. */
import type { NewRequest } from '../../src/engine/client.js';
import { GREEDY, PLAIN_REQUEST, type SamplingParams } from '../../src/engine/protocol.js';

/** Greedy unless `sampling` says otherwise; no token ends it. */
export function requestOf(
  prompt: ArrayLike<number>,
  maxTokens: number,
  sampling: Partial<SamplingParams> = {},
): NewRequest {
  return { ...PLAIN_REQUEST, prompt: Int32Array.from(prompt), sampling: { ...GREEDY, ...sampling }, maxTokens };
}
