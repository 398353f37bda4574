/** The blocks of one sequence in the order of its tokens: token at position p lies in `blocks[p / blockSize]`. */
import type { BlockKey } from './block-keys.js';
import type { BlockId } from './block-pool.js';

export class BlockTable {
  /** The prefix cache's: keys of the sequence's full blocks, as far as they were asked for; kept when blocks are lost. */
  readonly keys: BlockKey[] = [];
  /** The prefix cache's: leading blocks of the table that are cached. */
  published = 0;
  /** The prefix cache's: when the table was started, counted in resets; 0 publishes nothing. */
  generation = 0;
  #blocks = new Int32Array(4);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The blocks themselves, a view that is valid until the table changes. */
  get blocks(): Int32Array {
    return this.#blocks.subarray(0, this.#length);
  }

  at(index: number): BlockId {
    if (!(index >= 0 && index < this.#length)) throw new RangeError(`no block ${index} in a table of ${this.#length}`);
    return this.#blocks[index]!;
  }

  push(block: BlockId): void {
    if (this.#length === this.#blocks.length) {
      const grown = new Int32Array(this.#length * 2);
      grown.set(this.#blocks);
      this.#blocks = grown;
    }
    this.#blocks[this.#length++] = block;
  }

  /** Takes the last block off. */
  pop(): BlockId | undefined {
    return this.#length === 0 ? undefined : this.#blocks[--this.#length];
  }

  replace(index: number, block: BlockId): void {
    if (!(index >= 0 && index < this.#length)) throw new RangeError(`no block ${index} in a table of ${this.#length}`);
    this.#blocks[index] = block;
  }

  /** Copies the table into a row of `StepBatch.blockTables`. */
  copyTo(target: Int32Array, offset: number): void {
    const blocks = this.#blocks;
    for (let i = 0; i < this.#length; i++) target[offset + i] = blocks[i]!;
  }
}
