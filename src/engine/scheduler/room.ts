/** How much room sequences take and will take: whether one more can start beside those that run. */
import type { PagedCache } from '../kv/paged-cache.js';
import type { FoundPrefix } from '../kv/prefix-cache.js';
import type { Sequence } from '../sequence.js';
import { scoresPrompt } from './plan.js';

/**
 * Blocks that a sequence is expected to take: those of the tokens it has and one to grow into, if it can grow. To count
 * with less lets a sequence in that is preempted soon after; to count with its longest possible output leaves most of
 * the pool unused.
 */
export function expectedBlocks(sequence: Sequence, cache: PagedCache): number {
  return Math.min(cache.blocksFor(sequence.length) + 1, cache.blocksFor(sequence.maxSlots));
}

/** Blocks that a fork is expected to take: it shares the full ones of its prompt. */
export function forkBlocks(fork: Sequence, cache: PagedCache): number {
  return expectedBlocks(fork, cache) - Math.floor(fork.length / cache.blockSize);
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

/** Sequences that run, and those that join them without waiting for admission. */
export function takenSlots(running: Iterable<Sequence>): number {
  let slots = 0;
  for (const sequence of running) slots += 1 + sequence.forks.length;
  return slots;
}

/**
 * Leading tokens of a sequence that may come from the prefix cache: at least one is computed, for its logits, and of a
 * prompt that is scored all whose logits are still wanted. Of a longer one it is two: a token computed alone goes through
 * the kernels of decodes, which round differently, and the answer would then depend on what the cache holds.
 */
export function reusableTokens(sequence: Sequence): number {
  const { promptLength, promptScored } = sequence;
  const scoring = scoresPrompt(sequence) && promptScored < promptLength;
  return scoring ? Math.max(0, promptScored - 1) : Math.max(0, sequence.length - 2);
}

/**
 * Whether the blocks of a sequence are there. Those it shares with others that run it need not be given.
 * @param promised `promisedBlocks` of those that run
 */
export function blocksFit(sequence: Sequence, found: FoundPrefix, promised: number, cache: PagedCache): boolean {
  const needed = expectedBlocks(sequence, cache) - found.blocks.length + found.idle;
  return needed <= cache.availableBlocks - promised;
}

/** Whether a sequence could start if only these stayed. */
export function fitsBeside(
  sequence: Sequence,
  staying: readonly Sequence[],
  maxNumSeqs: number,
  cache: PagedCache,
): boolean {
  const held = cache.distinctBlocks(staying.map(({ blocks }) => blocks));
  const blocks = cache.numBlocks - held - promisedBlocks(staying, cache);
  return takenSlots(staying) < maxNumSeqs && expectedBlocks(sequence, cache) <= blocks;
}
