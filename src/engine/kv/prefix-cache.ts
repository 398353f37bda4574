/**
 * Finds blocks by the tokens they hold; the last one found may hold some of the tokens that are looked for and then others,
 * as where prompts with a common beginning part. The cache is one more owner of each block that a sequence has filled, so the block
 * outlives the sequence; blocks that nobody else owns any more are idle and leave, the longest unused first, when room is
 * needed.
 *
 * A sequence that owns a cached block owns all those before it in its chain, and gives them back last to first. So a block
 * becomes idle after every block that follows it, leaves after them too, and what is left of a chain has no hole.
 */
import { type BlockKey, type HashBlock, rootKey, sha256Blocks } from './block-keys.js';
import type { BlockId, BlockPool } from './block-pool.js';
import type { BlockTable } from './block-table.js';
import { IdleBlocks } from './idle-blocks.js';

export interface PrefixCacheOptions {
  /** Names the model; part of every key. */
  readonly model: string;
  /** Instead of SHA-256. */
  readonly hash?: HashBlock | undefined;
}

/** Stands for what comes before the first block, for one salt. */
interface Root {
  /** Negative, so that it is no block; names the root as a block's parent. */
  readonly id: number;
  readonly salt: string;
  /** First blocks that are cached under it; a root without any is forgotten. */
  blocks: number;
}

/** What `find` found; reused by the next. */
export interface FoundPrefix {
  /** Leading blocks of the sequence that are cached. */
  readonly blocks: readonly BlockId[];
  /** A cached block that begins as the sequence goes on behind them; of this one a copy is needed. */
  readonly begun: BlockId | undefined;
  /** How many of all these blocks are idle: to take one makes one available block less. */
  readonly idle: number;
  /** Leading tokens of the sequence that they hold. */
  readonly tokens: number;
}

/** Share of a block that has to be equal for a copy of it to be worth its while: many prompts have some words in common. */
const WORTH_COPYING = 1 / 4;

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export class PrefixCache {
  readonly #pool: BlockPool;
  readonly #blockSize: number;
  readonly #model: string;
  readonly #hash: HashBlock;
  readonly #byKey = new Map<BlockKey, BlockId>();
  readonly #roots = new Map<string, Root>();
  readonly #rootsById = new Map<number, Root>();
  /** By block; undefined where it is not cached. */
  readonly #keys: (BlockKey | undefined)[];
  readonly #parents: Float64Array;
  /** By block or root, the block published behind it last: where sequences part, it begins as the next one goes on. */
  readonly #latest = new Map<number, BlockId>();
  readonly #tokens: Int32Array;
  readonly #idle: IdleBlocks;
  readonly #found: Mutable<FoundPrefix> & { readonly blocks: BlockId[] } = {
    blocks: [],
    begun: undefined,
    idle: 0,
    tokens: 0,
  };
  #nextRoot = -1;
  /** Tables of an earlier generation hold blocks from before a reset and publish no more. */
  #generation = 1;

  constructor(pool: BlockPool, blockSize: number, options: PrefixCacheOptions) {
    this.#pool = pool;
    this.#blockSize = blockSize;
    this.#model = options.model;
    this.#hash = options.hash ?? sha256Blocks(blockSize);
    this.#keys = new Array<BlockKey | undefined>(pool.numBlocks).fill(undefined);
    this.#parents = new Float64Array(pool.numBlocks);
    this.#tokens = new Int32Array(pool.numBlocks * blockSize);
    this.#idle = new IdleBlocks(pool.numBlocks);
  }

  /** Blocks that only the cache owns. */
  get idleBlocks(): number {
    return this.#idle.size;
  }

  /** Blocks that can be found. */
  get size(): number {
    return this.#byKey.size;
  }

  /**
   * Looks up the leading tokens of a sequence. Nothing changes hands: `adopt` does that, if it comes before the next call.
   * O(1) per block found, and one hash for each block the first time.
   * @param limit no more tokens are looked for
   */
  find(table: BlockTable, tokens: Int32Array, limit: number, salt: string): FoundPrefix {
    const found = this.#found;
    found.blocks.length = 0;
    found.begun = undefined;
    found.idle = 0;
    found.tokens = 0;
    const root = this.#roots.get(salt);
    if (root === undefined) return found;
    let parent = root.id;
    for (let index = 0; (index + 1) * this.#blockSize <= limit; index++) {
      const block = this.#byKey.get(this.#key(table, tokens, index, salt));
      if (block === undefined || !this.#holds(block, parent, tokens, index)) break;
      found.blocks.push(block);
      if (this.#pool.references(block) === 1) found.idle++;
      parent = block;
    }
    found.tokens = found.blocks.length * this.#blockSize;
    const next = this.#latest.get(parent);
    if (next === undefined) return found;
    const equal = this.#equalTokens(next, tokens, found.tokens, Math.min(limit - found.tokens, this.#blockSize - 1));
    if (equal < WORTH_COPYING * this.#blockSize) return found;
    found.begun = next;
    if (this.#pool.references(next) === 1) found.idle++;
    found.tokens += equal;
    return found;
  }

  /**
   * Starts an empty table with the blocks that the last `find` found for it. The last may have begun only as the sequence
   * goes on, so before the table is written to it has to be replaced by a copy, as every shared block.
   */
  adopt(table: BlockTable): void {
    const { blocks, begun } = this.#found;
    for (const block of begun === undefined ? blocks : [...blocks, begun]) {
      this.#share(block);
      table.push(block);
    }
    table.published = blocks.length;
    table.generation = this.#generation;
  }

  /**
   * Makes the full blocks among a table's first `computed` tokens findable. A block whose tokens are cached already is
   * given up for the cached one, so that equal chains share their memory. O(1) per block.
   */
  publish(table: BlockTable, tokens: Int32Array, computed: number, salt: string): void {
    while (table.generation === this.#generation && (table.published + 1) * this.#blockSize <= computed) {
      if (this.#publish(table, tokens, table.published, salt)) table.published++;
      else table.generation = 0;
    }
  }

  /** Tells that a sequence has given up a block and the block is not free. */
  released(block: BlockId): void {
    if (this.#keys[block] !== undefined && this.#pool.references(block) === 1) this.#idle.push(block);
  }

  /** Frees the block that has been idle for longest; there must be one. */
  evict(): void {
    this.#forget(this.#idle.shift());
  }

  /** Forgets everything. Sequences keep their blocks, but publish no more of them. */
  reset(): void {
    this.#generation++;
    for (const block of this.#byKey.values()) {
      if (this.#pool.references(block) === 1) this.#idle.remove(block);
      this.#keys[block] = undefined;
      this.#pool.release(block);
    }
    this.#byKey.clear();
    this.#latest.clear();
    this.#roots.clear();
    this.#rootsById.clear();
  }

  /** The blocks that the cache owns. Proves on the way that they are in order; throws what is wrong. */
  *check(): Generator<BlockId> {
    const idle = this.#idle.check();
    let idleExpected = 0;
    for (const [key, block] of this.#byKey) {
      if (this.#keys[block] !== key) throw new Error(`block ${block} is cached under another key than it has`);
      const alone = this.#pool.references(block) === 1;
      if (alone) idleExpected++;
      if (alone !== idle.has(block)) throw new Error(`block ${block} is ${alone ? 'not ' : ''}among the idle`);
      const parent = this.#parents[block]!;
      if (parent < 0) {
        if (!this.#rootsById.has(parent)) throw new Error(`block ${block} has lost its root`);
      } else if (this.#keys[parent] === undefined) {
        throw new Error(`block ${block} has lost the block before it`);
      } else if (idle.has(parent) && !(idle.get(block)! < idle.get(parent)!)) {
        throw new Error(`block ${block} would leave after the block before it`);
      }
      yield block;
    }
    for (const [parent, block] of this.#latest) {
      const follows = this.#keys[block] !== undefined && this.#parents[block] === parent;
      if (!follows) throw new Error(`block ${block} is no cached one behind ${parent}`);
    }
    if (idle.size !== idleExpected) throw new Error(`${idle.size} blocks are idle, not ${idleExpected}`);
  }

  /** False when the key stands for other tokens: hashes collided, and the block that came first keeps the key. */
  #publish(table: BlockTable, tokens: Int32Array, index: number, salt: string): boolean {
    const own = table.at(index);
    const key = this.#key(table, tokens, index, salt);
    const known = this.#byKey.get(key);
    const parent = index > 0 ? table.at(index - 1) : this.#roots.get(salt)?.id;
    if (known !== undefined) {
      if (parent === undefined || !this.#holds(known, parent, tokens, index)) return false;
      this.#share(known);
      this.#latest.set(parent, known);
      table.replace(index, known);
      this.#pool.release(own);
      return true;
    }
    this.#pool.reference(own);
    this.#byKey.set(key, own);
    this.#keys[own] = key;
    this.#parents[own] = parent ?? this.#addRoot(salt).id;
    this.#latest.set(this.#parents[own]!, own);
    if (index === 0) this.#rootsById.get(this.#parents[own]!)!.blocks++;
    const start = index * this.#blockSize;
    for (let i = 0; i < this.#blockSize; i++) this.#tokens[own * this.#blockSize + i] = tokens[start + i]!;
    return true;
  }

  #key(table: BlockTable, tokens: Int32Array, index: number, salt: string): BlockKey {
    const { keys } = table;
    for (let i = keys.length; i <= index; i++) {
      const parent = i > 0 ? keys[i - 1]! : rootKey(this.#model, salt);
      keys.push(this.#hash(parent, tokens.subarray(i * this.#blockSize, (i + 1) * this.#blockSize)));
    }
    return keys[index]!;
  }

  /** Whether a cached block holds just these tokens, after just these blocks. */
  #holds(block: BlockId, parent: number, tokens: Int32Array, index: number): boolean {
    if (this.#parents[block] !== parent) return false;
    return this.#equalTokens(block, tokens, index * this.#blockSize, this.#blockSize) === this.#blockSize;
  }

  /** How many of a cached block's first `most` tokens are those of a sequence from `start` on, up to the first other one. */
  #equalTokens(block: BlockId, tokens: Int32Array, start: number, most: number): number {
    const own = block * this.#blockSize;
    let equal = 0;
    while (equal < most && this.#tokens[own + equal] === tokens[start + equal]) equal++;
    return equal;
  }

  #share(block: BlockId): void {
    if (this.#pool.references(block) === 1) this.#idle.remove(block);
    this.#pool.reference(block);
  }

  #forget(block: BlockId): void {
    this.#byKey.delete(this.#keys[block]!);
    this.#keys[block] = undefined;
    const parent = this.#parents[block]!;
    if (this.#latest.get(parent) === block) this.#latest.delete(parent);
    const root = this.#rootsById.get(parent);
    if (root !== undefined && --root.blocks === 0) {
      this.#roots.delete(root.salt);
      this.#rootsById.delete(root.id);
    }
    this.#pool.release(block);
  }

  #addRoot(salt: string): Root {
    const root: Root = { id: this.#nextRoot--, salt, blocks: 0 };
    this.#roots.set(salt, root);
    this.#rootsById.set(root.id, root);
    return root;
  }
}
