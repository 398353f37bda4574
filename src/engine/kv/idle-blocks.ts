/** Blocks in the order in which they became idle: a doubly linked list in two arrays. Every operation is O(1). */
import type { BlockId } from './block-pool.js';

export class IdleBlocks {
  /** By block, and behind all blocks the list's own two ends. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  readonly #ends: number;
  #size = 0;

  constructor(numBlocks: number) {
    this.#ends = numBlocks;
    this.#next = new Int32Array(numBlocks + 1);
    this.#previous = new Int32Array(numBlocks + 1);
    this.#next[numBlocks] = numBlocks;
    this.#previous[numBlocks] = numBlocks;
  }

  get size(): number {
    return this.#size;
  }

  /** Adds a block, which must not be in the list, as the last to leave. */
  push(block: BlockId): void {
    const last = this.#previous[this.#ends]!;
    this.#link(last, block);
    this.#link(block, this.#ends);
    this.#size++;
  }

  /** Takes out a block, which must be in the list. */
  remove(block: BlockId): void {
    this.#link(this.#previous[block]!, this.#next[block]!);
    this.#size--;
  }

  /** Takes out the block that was added first. */
  shift(): BlockId {
    if (this.#size === 0) throw new Error('no block is idle');
    const block = this.#next[this.#ends]!;
    this.remove(block);
    return block;
  }

  /** The place of each block in the list, from 0. Throws when the two directions of the list differ. */
  check(): Map<BlockId, number> {
    const places = new Map<BlockId, number>();
    for (let block = this.#next[this.#ends]!; block !== this.#ends; block = this.#next[block]!) {
      if (this.#next[this.#previous[block]!] !== block) throw new Error(`the links of idle block ${block} differ`);
      if (places.has(block)) throw new Error(`idle block ${block} is listed twice`);
      places.set(block, places.size);
    }
    if (places.size !== this.#size) throw new Error(`${places.size} blocks are listed as idle, not ${this.#size}`);
    return places;
  }

  #link(first: number, second: number): void {
    this.#next[first] = second;
    this.#previous[second] = first;
  }
}
