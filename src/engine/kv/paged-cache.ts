/**
 * The paged cache as the scheduler sees it: sequences ask for room and give it back. Which block they get, and whether it
 * was free or shared, is decided here and nowhere else.
 */
import { BlockPool } from './block-pool.js';
import type { BlockTable } from './block-table.js';

export class PagedCache {
  readonly pool: BlockPool;

  constructor(
    numBlocks: number,
    /** Tokens a block holds. */
    readonly blockSize: number,
  ) {
    this.pool = new BlockPool(numBlocks);
  }

  get numBlocks(): number {
    return this.pool.numBlocks;
  }

  /** Blocks that can be had right now. */
  get availableBlocks(): number {
    return this.pool.freeBlocks;
  }

  /** Blocks that so many tokens take. */
  blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.blockSize);
  }

  /** Gives a table room for its first `tokens` tokens. False, and nothing changed, when the blocks are not there. */
  grow(table: BlockTable, tokens: number): boolean {
    const missing = this.blocksFor(tokens) - table.length;
    if (missing > this.availableBlocks) return false;
    for (let i = 0; i < missing; i++) table.push(this.pool.allocate()!);
    return true;
  }

  /** Gives back all blocks behind the first `tokens` tokens; 0 gives back the whole table. */
  shrink(table: BlockTable, tokens: number): void {
    for (let keep = this.blocksFor(tokens); table.length > keep; ) this.pool.release(table.pop()!);
  }

  /** Proves that the pool is owned by exactly these tables; throws what is wrong. */
  check(tables: Iterable<BlockTable>): void {
    const owners: Int32Array[] = [];
    for (const table of tables) owners.push(table.blocks);
    this.pool.check(owners);
  }
}
