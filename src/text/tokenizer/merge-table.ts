/**
 * The merges of a BPE vocabulary as one open-addressed hash table in shared memory: (left id, right id) to (rank,
 * merged id). The encoder thread reads the same memory, so a second encoder costs no second table.
 */

/** left, right, rank, merged; left is -1 in an empty slot. */
const SLOT = 4;

export interface Merge {
  readonly left: number;
  readonly right: number;
  /** Lower is merged first; merges of equal rank are made left to right. */
  readonly rank: number;
  readonly merged: number;
}

export type MergeTable = Int32Array<SharedArrayBuffer>;

/** Builds the table; of two merges of the same pair the lower rank counts. */
export function buildMergeTable(merges: Iterable<Merge>, count: number): MergeTable {
  let slots = 16;
  while (slots < count * 2) slots *= 2;
  const table = new Int32Array(new SharedArrayBuffer(slots * SLOT * Int32Array.BYTES_PER_ELEMENT));
  table.fill(-1);
  for (const { left, right, rank, merged } of merges) {
    const at = findSlot(table, left, right);
    if (table[at] !== -1 && table[at + 2]! <= rank) continue;
    table[at] = left;
    table[at + 1] = right;
    table[at + 2] = rank;
    table[at + 3] = merged;
  }
  return table;
}

/** Offset of the pair's slot, or of the empty slot where it would be. */
export function findSlot(table: MergeTable, left: number, right: number): number {
  const last = table.length / SLOT - 1;
  let hash = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b);
  hash ^= hash >>> 15;
  let at = (hash & last) * SLOT;
  while (table[at] !== -1 && (table[at] !== left || table[at + 1] !== right)) {
    at = (at + SLOT) & (table.length - 1);
  }
  return at;
}

/** Rank of merging the pair, -1 when they do not merge. */
export function mergeRank(table: MergeTable, left: number, right: number): number {
  return table[findSlot(table, left, right) + 2]!;
}

/** Id of the merged pair, -1 when they do not merge. */
export function mergedId(table: MergeTable, left: number, right: number): number {
  return table[findSlot(table, left, right) + 3]!;
}
