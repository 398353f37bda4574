/**
 * Byte-pair merging of one run of symbols: again and again the pair of lowest rank, leftmost first, becomes one
 * symbol. Short runs scan for it; long ones (a megabyte without a space is one run) keep the pairs in a heap, so that
 * time is O(n log n) and never quadratic.
 */
import { type MergeTable, mergedId, mergeRank } from './merge-table.js';
import { NumberHeap } from './number-heap.js';

const SCAN_AT_MOST = 48;
/** Positions take the low 26 bits of a heap key, ranks the rest of the 53 that a double holds exactly. */
const POSITIONS = 2 ** 26;

/** Longest run of symbols that can be merged. */
export const LONGEST_RUN = POSITIONS;

/** Merges the first `length` symbols in place; returns how many are left. */
export function mergeSymbols(table: MergeTable, symbols: Int32Array, length: number): number {
  return length <= SCAN_AT_MOST ? mergeByScan(table, symbols, length) : mergeByHeap(table, symbols, length);
}

function mergeByScan(table: MergeTable, symbols: Int32Array, length: number): number {
  const ranks = scanRanks;
  for (let i = 0; i + 1 < length; i++) ranks[i] = mergeRank(table, symbols[i]!, symbols[i + 1]!);
  for (;;) {
    let best = -1;
    for (let i = 0; i + 1 < length; i++) {
      if (ranks[i]! >= 0 && (best < 0 || ranks[i]! < ranks[best]!)) best = i;
    }
    if (best < 0) return length;
    symbols[best] = mergedId(table, symbols[best]!, symbols[best + 1]!);
    symbols.copyWithin(best + 1, best + 2, length);
    ranks.copyWithin(best, best + 1, length - 1);
    length--;
    if (best > 0) ranks[best - 1] = mergeRank(table, symbols[best - 1]!, symbols[best]!);
    if (best + 1 < length) ranks[best] = mergeRank(table, symbols[best]!, symbols[best + 1]!);
  }
}
const scanRanks = new Int32Array(SCAN_AT_MOST);

function mergeByHeap(table: MergeTable, symbols: Int32Array, length: number): number {
  const previous = new Int32Array(length);
  const next = new Int32Array(length);
  /** Rank of the pair that starts at a position, -1 for none; a heap entry that disagrees is out of date. */
  const ranks = new Int32Array(length);
  const heap = new NumberHeap(length);
  const offer = (at: number): void => {
    const right = next[at]!;
    const rank = right < length ? mergeRank(table, symbols[at]!, symbols[right]!) : -1;
    ranks[at] = rank;
    if (rank >= 0) heap.push(rank * POSITIONS + at);
  };

  for (let i = 0; i < length; i++) {
    previous[i] = i - 1;
    next[i] = i + 1;
  }
  for (let i = 0; i < length; i++) offer(i);

  while (heap.size > 0) {
    const key = heap.pop();
    const at = key % POSITIONS;
    if (ranks[at] !== (key - at) / POSITIONS) continue;
    const right = next[at]!;
    symbols[at] = mergedId(table, symbols[at]!, symbols[right]!);
    ranks[right] = -1;
    const after = next[right]!;
    next[at] = after;
    if (after < length) previous[after] = at;
    offer(at);
    if (previous[at]! >= 0) offer(previous[at]!);
  }

  let kept = 0;
  for (let at = 0; at < length; at = next[at]!) symbols[kept++] = symbols[at]!;
  return kept;
}
