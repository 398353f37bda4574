/** Requests that can never be served. */
import type { PagedCache } from '../kv/paged-cache.js';
import type { EngineFault, GenerationRequest } from '../protocol.js';

/** Why a request can never be served, or undefined when it can. */
export function refusal(request: GenerationRequest, maxModelLen: number, cache: PagedCache): EngineFault | undefined {
  const prompt = request.prompt.length;
  if (prompt >= maxModelLen) {
    return {
      code: 'too_long',
      message: `The prompt has ${prompt} tokens; with at least one to generate, the longest this engine takes is ${maxModelLen - 1}.`,
    };
  }
  const slots = Math.max(prompt, Math.min(prompt + request.maxTokens, maxModelLen) - 1);
  if (cache.blocksFor(slots) > cache.numBlocks) {
    return {
      code: 'too_long',
      message: `The prompt and the tokens to generate need ${slots} slots of the cache; it has ${cache.numBlocks * cache.blockSize}.`,
    };
  }
  return undefined;
}
