/**
 * The paged cache as the scheduler sees it: sequences ask for room and give it back. Which block they get, and whether it
 * was free, shared, or taken from the prefix cache, is decided here and nowhere else.
 */
import { type BlockId, BlockPool } from './block-pool.js';
import type { BlockTable } from './block-table.js';
import { type FoundPrefix, PrefixCache, type PrefixCacheOptions } from './prefix-cache.js';

const NOTHING_FOUND: FoundPrefix = { blocks: [], begun: undefined, idle: 0, tokens: 0 };

/** Blocks to copy before a step, in order: sources[i] to targets[i]. */
export interface BlockCopies {
  readonly sources: BlockId[];
  readonly targets: BlockId[];
}

export class PagedCache {
  readonly pool: BlockPool;
  readonly #prefixes: PrefixCache | undefined;
  /** By block, when `distinctBlocks` last saw it. */
  readonly #seen: Uint32Array;
  #look = 0;

  /** @param prefixes undefined shares nothing between requests */
  constructor(
    numBlocks: number,
    /** Tokens a block holds. */
    readonly blockSize: number,
    prefixes?: PrefixCacheOptions,
  ) {
    this.pool = new BlockPool(numBlocks);
    this.#prefixes = prefixes && new PrefixCache(this.pool, blockSize, prefixes);
    this.#seen = new Uint32Array(numBlocks);
  }

  get numBlocks(): number {
    return this.pool.numBlocks;
  }

  /** Blocks that can be had right now: free ones, and those that only the prefix cache owns. */
  get availableBlocks(): number {
    return this.pool.freeBlocks + (this.#prefixes?.idleBlocks ?? 0);
  }

  get findsPrefixes(): boolean {
    return this.#prefixes !== undefined;
  }

  /** Blocks that the prefix cache can find. */
  get cachedBlocks(): number {
    return this.#prefixes?.size ?? 0;
  }

  /** Blocks that so many tokens take. */
  blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.blockSize);
  }

  /** Looks up the leading tokens of a sequence, at most `limit`; `start` takes what was found last. */
  find(table: BlockTable, tokens: Int32Array, limit: number, salt: string): FoundPrefix {
    return this.#prefixes?.find(table, tokens, limit, salt) ?? NOTHING_FOUND;
  }

  /**
   * Starts an empty table with what the last `find`, which was for it, has found. It must `grow` next, by what is to be
   * written: that replaces a block which holds other tokens as well by a copy.
   */
  start(table: BlockTable): void {
    this.#prefixes?.adopt(table);
  }

  /** Makes the full blocks among a sequence's first `computed` tokens findable for others; a step has filled them. */
  publish(table: BlockTable, tokens: Int32Array, computed: number, salt: string): void {
    this.#prefixes?.publish(table, tokens, computed, salt);
  }

  /** Forgets all prefixes. Sequences keep their blocks. */
  resetPrefixes(): void {
    this.#prefixes?.reset();
  }

  /**
   * Gives a table room for its first `tokens` tokens, those from `written` on to be written: a block that it shares there
   * with another table is replaced by a copy. False, and nothing changed, when the blocks are not there.
   * @param copies gets the copy to be made before the step
   */
  grow(table: BlockTable, tokens: number, written: number, copies: BlockCopies): boolean {
    const first = Math.floor(written / this.blockSize);
    const shared = this.mustCopy(table, written);
    const missing = this.blocksFor(tokens) - table.length;
    if (missing + (shared ? 1 : 0) > this.availableBlocks) return false;
    if (shared) {
      const source = table.at(first);
      const target = this.#allocate();
      copies.sources.push(source);
      copies.targets.push(target);
      table.replace(first, target);
      this.#release(source);
    }
    for (let i = 0; i < missing; i++) table.push(this.#allocate());
    return true;
  }

  /** Whether the block of a position to be written next is shared. */
  mustCopy(table: BlockTable, position: number): boolean {
    const index = Math.floor(position / this.blockSize);
    return index < table.length && this.pool.references(table.at(index)) > 1;
  }

  /** Makes an empty table an equal owner of another's blocks. */
  fork(from: BlockTable, to: BlockTable): void {
    for (const block of from.blocks) {
      this.pool.reference(block);
      to.push(block);
    }
    for (let i = to.keys.length; i < from.keys.length; i++) to.keys.push(from.keys[i]!);
    to.published = from.published;
    to.generation = from.generation;
  }

  /** Gives back all blocks behind the first `tokens` tokens; 0 gives back the whole table. */
  shrink(table: BlockTable, tokens: number): void {
    for (let keep = this.blocksFor(tokens); table.length > keep; ) this.#release(table.pop()!);
  }

  /** How many different blocks these tables hold. */
  distinctBlocks(tables: Iterable<BlockTable>): number {
    const look = ++this.#look;
    let distinct = 0;
    for (const table of tables) {
      for (const block of table.blocks) {
        if (this.#seen[block] === look) continue;
        this.#seen[block] = look;
        distinct++;
      }
    }
    return distinct;
  }

  /** Proves that the pool is owned by exactly these tables and the prefix cache; throws what is wrong. */
  check(tables: Iterable<BlockTable>): void {
    const owners: Iterable<BlockId>[] = [];
    for (const table of tables) owners.push(table.blocks);
    if (this.#prefixes !== undefined) owners.push(this.#prefixes.check());
    this.pool.check(owners);
  }

  #allocate(): BlockId {
    if (this.pool.freeBlocks === 0) this.#prefixes?.evict();
    return this.pool.allocate()!;
  }

  #release(block: BlockId): void {
    if (!this.pool.release(block)) this.#prefixes?.released(block);
  }
}
