/** Who may start: requests that can be served at all, and sequences whose blocks are there. */
import type { PagedCache } from '../kv/paged-cache.js';
import type { FoundPrefix } from '../kv/prefix-cache.js';
import type { EngineFault, GenerationRequest } from '../protocol.js';
import type { Sequence } from '../sequence.js';
import { scoresPrompt } from './plan.js';
import type { RunningList } from './running-list.js';

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

/**
 * Blocks that a sequence is expected to take: those of the tokens it has and one to grow into, if it can grow. To count
 * with less lets a sequence in that is preempted soon after; to count with its longest possible output leaves most of
 * the pool unused.
 */
export function expectedBlocks(sequence: Sequence, cache: PagedCache): number {
  return Math.min(cache.blocksFor(sequence.length) + 1, cache.blocksFor(sequence.maxSlots));
}

/** Blocks that running sequences are expected to take beyond those they have, for themselves and for their forks. */
export function promisedBlocks(running: Iterable<Sequence>, cache: PagedCache): number {
  let promised = 0;
  for (const sequence of running) {
    promised += Math.max(0, expectedBlocks(sequence, cache) - sequence.blocks.length);
    if (cache.mustCopy(sequence.blocks, sequence.computed)) promised++;
    for (const fork of sequence.forks) promised += forkBlocks(fork, cache);
  }
  return promised;
}

/** Blocks that a fork is expected to take: it shares the full ones of its prompt. */
export function forkBlocks(fork: Sequence, cache: PagedCache): number {
  return expectedBlocks(fork, cache) - Math.floor(fork.length / cache.blockSize);
}

/** Sequences that run, and those that join them without waiting for admission. */
export function takenSlots(running: RunningList): number {
  let slots = 0;
  for (const sequence of running) slots += 1 + sequence.forks.length;
  return slots;
}

/**
 * Leading tokens of a sequence that may come from the prefix cache: at least one is computed, for its logits, and of a
 * prompt that is scored all whose logits are still wanted.
 */
export function reusableTokens(sequence: Sequence): number {
  const { promptLength, promptScored } = sequence;
  const scoring = scoresPrompt(sequence) && promptScored < promptLength;
  return scoring ? Math.max(0, promptScored - 1) : sequence.length - 1;
}

/** Whether a sequence can start beside those that run. Blocks it shares with them it need not be given. */
export function fits(
  sequence: Sequence,
  found: FoundPrefix,
  running: RunningList,
  maxNumSeqs: number,
  cache: PagedCache,
): boolean {
  return (
    takenSlots(running) < maxNumSeqs &&
    expectedBlocks(sequence, cache) - found.blocks.length + found.idle <=
      cache.availableBlocks - promisedBlocks(running, cache)
  );
}

/** Whether a sequence could start if all that run with a lower priority than its own gave way. */
export function fitsAfterPreemption(
  sequence: Sequence,
  running: RunningList,
  maxNumSeqs: number,
  cache: PagedCache,
): boolean {
  const staying = Array.from(running).filter((other) => other.request.priority <= sequence.request.priority);
  const held = cache.distinctBlocks(staying.map(({ blocks }) => blocks));
  const blocks = cache.numBlocks - held - promisedBlocks(staying, cache);
  return staying.length < maxNumSeqs && expectedBlocks(sequence, cache) <= blocks;
}
