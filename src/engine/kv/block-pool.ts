/**
 * The blocks of the paged cache as numbers: who may write where. Blocks are counted references; the lowest free block is
 * handed out first, so that the part of the pool in use stays short and backends need to look no further than `highWater`.
 */

/** Index of a block in the pool. */
export type BlockId = number;

export class BlockPool {
  /** How many owners each block has; 0 is free. */
  readonly #references: Uint32Array;
  /** Level 0 has a bit for each block, set while it is free; each bit above says that the word below it is not 0. */
  readonly #levels: Int32Array[] = [];
  #used = 0;
  #highWater = 0;

  constructor(readonly numBlocks: number) {
    if (!Number.isSafeInteger(numBlocks) || numBlocks < 1) {
      throw new RangeError(`a pool needs at least one block, not ${numBlocks}`);
    }
    this.#references = new Uint32Array(numBlocks);
    for (let bits = numBlocks; ; ) {
      const words = Math.ceil(bits / 32);
      const level = new Int32Array(words).fill(-1);
      if (bits % 32 !== 0) level[words - 1] = (1 << (bits % 32)) - 1;
      this.#levels.push(level);
      if (words === 1) break;
      bits = words;
    }
  }

  get usedBlocks(): number {
    return this.#used;
  }

  get freeBlocks(): number {
    return this.numBlocks - this.#used;
  }

  /** One past the highest block in use. */
  get highWater(): number {
    return this.#highWater;
  }

  references(block: BlockId): number {
    return this.#references[block]!;
  }

  /** Takes the lowest free block, with one reference. O(log32 numBlocks). Undefined when none is free. */
  allocate(): BlockId | undefined {
    if (this.#used === this.numBlocks) return undefined;
    let index = 0;
    for (let level = this.#levels.length - 1; level >= 0; level--) {
      const word = this.#levels[level]![index]!;
      index = index * 32 + (31 - Math.clz32(word & -word));
    }
    this.#markUsed(index);
    this.#references[index] = 1;
    this.#used++;
    if (index >= this.#highWater) this.#highWater = index + 1;
    return index;
  }

  /** One more owner of a block in use. O(1). */
  reference(block: BlockId): void {
    if (this.#references[block] === 0) throw new Error(`block ${block} is free and cannot be shared`);
    this.#references[block]!++;
  }

  /** One owner less; true when that was the last and the block is free now. O(log32 numBlocks), amortized for highWater. */
  release(block: BlockId): boolean {
    const references = this.#references[block];
    if (!references) throw new Error(`block ${block} is released but not in use`);
    this.#references[block] = references - 1;
    if (references > 1) return false;
    this.#markFree(block);
    this.#used--;
    // Blocks are handed out lowest first, so an allocation raises the mark by one at most and pays for one step here.
    while (this.#highWater > 0 && this.#references[this.#highWater - 1] === 0) this.#highWater--;
    return true;
  }

  /**
   * Proves that every block is owned exactly as often as it is counted and free otherwise; throws what is wrong.
   * @param owners each the blocks that one owner holds references to, repeats counted
   */
  check(owners: Iterable<Iterable<BlockId>>): void {
    const owned = new Uint32Array(this.numBlocks);
    for (const blocks of owners) {
      for (const block of blocks) {
        if (!(block >= 0 && block < this.numBlocks)) throw new Error(`block ${block} is outside the pool`);
        owned[block]!++;
      }
    }
    let used = 0;
    let highWater = 0;
    for (let block = 0; block < this.numBlocks; block++) {
      const references = this.#references[block]!;
      if (references !== owned[block]) {
        throw new Error(`block ${block} counts ${references} references but has ${owned[block]} owners`);
      }
      if (references > 0) {
        used++;
        highWater = block + 1;
      }
      if (this.#isFree(block) !== (references === 0))
        throw new Error(`block ${block}: free list and references differ`);
    }
    if (used !== this.#used) throw new Error(`${used} blocks are in use, not ${this.#used}`);
    if (highWater !== this.#highWater) throw new Error(`the high-water mark is ${highWater}, not ${this.#highWater}`);
  }

  #isFree(block: BlockId): boolean {
    let index = block;
    for (const level of this.#levels) {
      if ((level[index >>> 5]! & (1 << (index & 31))) === 0) return false;
      index >>>= 5;
    }
    return true;
  }

  #markUsed(block: BlockId): void {
    let index = block;
    for (const level of this.#levels) {
      const word = index >>> 5;
      level[word]! &= ~(1 << (index & 31));
      if (level[word] !== 0) return;
      index = word;
    }
  }

  #markFree(block: BlockId): void {
    let index = block;
    for (const level of this.#levels) {
      const word = index >>> 5;
      const before = level[word]!;
      level[word] = before | (1 << (index & 31));
      if (before !== 0) return;
      index = word;
    }
  }
}
