/** How a layer's pages are kept: one format for each type of cache, which knows how they are written, read and multiplied. */
import type { KvCacheDtype } from '../../../engine/protocol.js';
import type { Architecture } from '../../architecture.js';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import { FloatPages } from './float-pages.js';
import { Int8Pages } from './int8-pages.js';

/**
 * V segments of n pages each, KH KV heads, G query heads for each of them, HS elements of a head. All values are f32, unless
 * another type is named.
 */
export interface PageFormat {
  /** Adds the inputs that hold the pages, and what all layers read of the page tables. */
  declare(g: GraphBuilder): void;
  /** The slots of the segments of the step's decodes. */
  segments(g: GraphBuilder, layer: number): Segments;
  /** Keys and values of pages i32 [P]: [1, KH, P * page size, HS] each. */
  slots(g: GraphBuilder, layer: number, pages: Value): { key: Value; value: Value };
  /** Keys or values of rows [1, T, KH * HS], as they will be when they are read back. */
  asStored(g: GraphBuilder, rows: Value): Value;
  /** Adds the outputs that the pool takes, from the rows [2 * layers, T, KH * HS]: keys and values of each layer in turn. */
  store(g: GraphBuilder, rows: Value): void;
}

export interface Segments {
  /** Queries [V, KH, G, HS] times the slots' keys, in attention's scale: [V, KH, G, n * page size]. */
  scores(queries: Value): Value;
  /** Weights [V, KH, G, n * page size] times the slots' values: [V, KH, G, HS]. */
  values(weights: Value): Value;
}

/** Tokens of a block unless another size is asked for, by what steps take (`bench/cache-types.ts`). */
export function defaultBlockSize(type: KvCacheDtype): number {
  return type === 'int8' ? 64 : 32;
}

export function pageFormat(type: KvCacheDtype, architecture: Architecture, blockSize: number): PageFormat {
  return type === 'int8' ? new Int8Pages(architecture, blockSize) : new FloatPages(type, architecture, blockSize);
}
