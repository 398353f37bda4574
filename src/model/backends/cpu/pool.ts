/**
 * The paged cache of the CPU backend: one allocation that threads may share, read by the graph and written here. Layout of
 * a layer's keys, and of its values: [pages, KV heads, page size, head size]. Page 0 belongs to nobody and is always
 * masked; block b of the engine is page b + 1.
 */
import { UserError } from '../../../errors.js';
import type { CacheType } from './attention.js';
import { asArrayBuffer } from './shared-memory.js';

export interface PoolShape {
  readonly layers: number;
  readonly kvHeads: number;
  readonly headSize: number;
  /** Tokens of a block. */
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly type: CacheType;
}

/** f32, or the bits of f16. */
export type CacheArray = Float32Array | Uint16Array;

function elementBytes(type: CacheType): number {
  return type === 'float32' ? 4 : 2;
}

export class CachePool {
  /** To be shared with another thread's pool of the same shape. */
  readonly memory: SharedArrayBuffer;
  /** By layer, over all pages. */
  readonly keys: readonly CacheArray[];
  readonly values: readonly CacheArray[];
  readonly bytes: number;
  /** Elements of one page of one layer's keys or values. */
  readonly pageElements: number;

  /** @param memory that of another thread's pool */
  constructor(
    readonly shape: PoolShape,
    memory?: SharedArrayBuffer,
  ) {
    this.pageElements = shape.kvHeads * shape.blockSize * shape.headSize;
    const layerElements = (shape.numBlocks + 1) * this.pageElements;
    const layerBytes = layerElements * elementBytes(shape.type);
    this.bytes = 2 * shape.layers * layerBytes;
    this.memory = memory ?? new SharedArrayBuffer(this.bytes);
    const view = (index: number): CacheArray => {
      const buffer = asArrayBuffer(this.memory, index * layerBytes, layerBytes);
      return shape.type === 'float32' ? new Float32Array(buffer) : new Uint16Array(buffer);
    };
    this.keys = Array.from({ length: shape.layers }, (_, layer) => view(2 * layer));
    this.values = Array.from({ length: shape.layers }, (_, layer) => view(2 * layer + 1));
  }

  /** The pool of as many blocks as fit into `bytes`. Throws UserError when none does or the memory is not to be had. */
  static ofBytes(bytes: number, shape: Omit<PoolShape, 'numBlocks'>): CachePool {
    const block = 2 * shape.layers * shape.kvHeads * shape.blockSize * shape.headSize * elementBytes(shape.type);
    const numBlocks = Math.floor(bytes / block) - 1;
    if (numBlocks < 1) {
      throw new UserError(
        `--kv-cache-memory of ${bytes} bytes is too little: this model needs at least ${2 * block} for one block of ${shape.blockSize} tokens.`,
      );
    }
    try {
      return new CachePool({ ...shape, numBlocks });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      throw new UserError(`--kv-cache-memory of ${bytes} bytes cannot be allocated in one piece; ask for less.`);
    }
  }

  /**
   * Writes the rows of a step: `present` [layers, rows, 2 * KV heads * head size] holds each row's keys and then its
   * values; row r goes to slot `slots[r]`, counted through all pages.
   */
  write(present: CacheArray, slots: Int32Array): void {
    const { layers, kvHeads, headSize, blockSize } = this.shape;
    const rows = slots.length;
    const kvWidth = kvHeads * headSize;
    const headStride = blockSize * headSize;
    for (let layer = 0; layer < layers; layer++) {
      const keys = this.keys[layer] as CacheArray;
      const values = this.values[layer] as CacheArray;
      for (let row = 0; row < rows; row++) {
        const slot = slots[row] as number;
        const page = Math.floor(slot / blockSize);
        let target = page * this.pageElements + (slot - page * blockSize) * headSize;
        let source = (layer * rows + row) * 2 * kvWidth;
        for (let head = 0; head < kvHeads; head++) {
          for (let i = 0; i < headSize; i++) {
            keys[target + i] = present[source + i] as number;
            values[target + i] = present[source + kvWidth + i] as number;
          }
          target += headStride;
          source += headSize;
        }
      }
    }
  }

  /** Copies whole pages, in order. */
  copyPages(source: ArrayLike<number>, target: ArrayLike<number>): void {
    const size = this.pageElements;
    for (let i = 0; i < source.length; i++) {
      const from = (source[i] as number) * size;
      const to = (target[i] as number) * size;
      for (const pool of this.keys) pool.copyWithin(to, from, from + size);
      for (const pool of this.values) pool.copyWithin(to, from, from + size);
    }
  }
}
