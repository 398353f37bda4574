/**
 * The paged cache of the CPU backend: one allocation that threads may share, read by the graph and written here. Layout of
 * a layer's keys, and of its values: [pages, KV heads, page size, head size]; keys of 8 bits are transposed in their page,
 * [pages, KV heads, head size, page size], and scales [pages, 2 * KV heads, page size] stand beside them, of keys and then
 * of values. Page 0 belongs to nobody and is always masked; block b of the engine is page b + 1. Layers whose pages are one
 * input of the graph lie behind each other.
 */
import type { KvCacheDtype } from '../../../engine/protocol.js';
import { UserError } from '../../../errors.js';
import { LAYERS_PER_INPUT } from './page-names.js';
import { asArrayBuffer } from './shared-memory.js';
import { copyRows, runsOf, splitQuads, transposeRows, transposeWords } from './write-rows.js';

export interface PoolShape {
  readonly layers: number;
  readonly kvHeads: number;
  readonly headSize: number;
  /** Tokens of a block. */
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly type: KvCacheDtype;
}

/** f32, the bits of f16, or 8-bit integers. */
export type CacheArray = Float32Array | Uint16Array | Int8Array;

const ARRAYS = { float32: Float32Array, float16: Uint16Array, int8: Int8Array } as const;

/** Elements of a page of one layer's keys or values, and of its scales. */
function pageElements({ kvHeads, headSize, blockSize, type }: Omit<PoolShape, 'numBlocks'>) {
  const tokens = kvHeads * blockSize;
  return { rows: tokens * headSize, scales: type === 'int8' ? 2 * tokens : 0 };
}

/** Of f32, the widest elements: arrays begin at multiples of as many bytes. */
const ALIGNMENT = 4;

/** Whether rows are copied four bytes at a time: where heads are so many bytes, and pages as many tokens where they are transposed. */
function writtenByWords({ headSize, blockSize, type }: PoolShape): boolean {
  const byHeads = (headSize * ARRAYS[type].BYTES_PER_ELEMENT) % 4 === 0;
  return byHeads && (type !== 'int8' || blockSize % 4 === 0);
}

/** Rows of a step, as they leave the graph. */
export interface StoredRows {
  /** [2 * layers, rows, KV heads * head size]: keys and values of each layer in turn. */
  readonly rows: CacheArray;
  /** [2 * layers, rows, KV heads], where the pool has scales. */
  readonly scales: Float32Array | undefined;
}

/** Layers that share an input of the graph, their pages one layer behind the other. */
export interface PoolInput {
  readonly layers: number;
  readonly keys: CacheArray;
  readonly values: CacheArray;
  /** Of integers only. */
  readonly scales: Float32Array | undefined;
}

/** What V8 lets an array have, and koffi a view. */
const INPUT_BYTES = 2 ** 32 - 1;

/** How many layers each input holds. */
function layersOfInputs(layers: number): number[] {
  const inputs = Math.ceil(layers / LAYERS_PER_INPUT);
  return Array.from({ length: inputs }, (_, i) => Math.min(LAYERS_PER_INPUT, layers - i * LAYERS_PER_INPUT));
}

/** A layer's part of each input. */
function byLayer<T extends CacheArray>(array: T, layers: number): T[] {
  const size = array.length / layers;
  return Array.from({ length: layers }, (_, layer) => array.subarray(layer * size, (layer + 1) * size) as T);
}

function wordsOf({ buffer, byteOffset, byteLength }: CacheArray): Int32Array {
  return new Int32Array(buffer, byteOffset, byteLength / 4);
}

export class CachePool {
  /** To be shared with another thread's pool of the same shape. */
  readonly memory: SharedArrayBuffer;
  readonly inputs: readonly PoolInput[];
  /** By layer, over all pages; parts of the inputs. */
  readonly keys: readonly CacheArray[];
  readonly values: readonly CacheArray[];
  /** None but of integers. */
  readonly scales: readonly Float32Array[];
  readonly bytes: number;
  /** The same memory as keys and values, four bytes at a time; where heads and pages are not so many, there are none. */
  readonly #keyWords: readonly Int32Array[];
  readonly #valueWords: readonly Int32Array[];

  /** @param memory that of another thread's pool */
  constructor(
    readonly shape: PoolShape,
    memory?: SharedArrayBuffer,
  ) {
    const pages = shape.numBlocks + 1;
    const page = pageElements(shape);
    const Rows = ARRAYS[shape.type];
    const counts = layersOfInputs(shape.layers);
    const align = (bytes: number) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
    const rowBytes = (layers: number) => align(layers * pages * page.rows * Rows.BYTES_PER_ELEMENT);
    const scaleBytes = (layers: number) => layers * pages * page.scales * Float32Array.BYTES_PER_ELEMENT;
    this.bytes = counts.reduce((sum, layers) => sum + 2 * rowBytes(layers) + scaleBytes(layers), 0);
    this.memory = memory ?? new SharedArrayBuffer(this.bytes);
    let end = 0;
    const take = (bytes: number) => {
      end += bytes;
      return asArrayBuffer(this.memory, end - bytes, bytes);
    };
    this.inputs = counts.map((layers) => {
      const rows = () => new Rows(take(rowBytes(layers)), 0, layers * pages * page.rows);
      const [keys, values] = [rows(), rows()];
      return { layers, keys, values, scales: page.scales > 0 ? new Float32Array(take(scaleBytes(layers))) : undefined };
    });
    this.keys = this.inputs.flatMap(({ keys, layers }) => byLayer(keys, layers));
    this.values = this.inputs.flatMap(({ values, layers }) => byLayer(values, layers));
    this.scales = this.inputs.flatMap(({ scales, layers }) => (scales === undefined ? [] : byLayer(scales, layers)));
    const hasWords = writtenByWords(shape);
    this.#keyWords = hasWords ? this.keys.map(wordsOf) : [];
    this.#valueWords = hasWords ? this.values.map(wordsOf) : [];
  }

  /** The pool of as many blocks as fit into `bytes`. Throws UserError when none does or the memory is not to be had. */
  static ofBytes(bytes: number, shape: Omit<PoolShape, 'numBlocks'>): CachePool {
    const page = pageElements(shape);
    const block = shape.layers * (2 * page.rows * ARRAYS[shape.type].BYTES_PER_ELEMENT + 4 * page.scales);
    const numBlocks = Math.floor(bytes / block) - 1;
    if (numBlocks < 1) {
      throw new UserError(
        `--kv-cache-memory of ${bytes} bytes is too little: this model needs at least ${2 * block} for one block of ${shape.blockSize} tokens.`,
      );
    }
    const perInput = Math.min(shape.layers, LAYERS_PER_INPUT) * page.rows * ARRAYS[shape.type].BYTES_PER_ELEMENT;
    if ((numBlocks + 1) * perInput > INPUT_BYTES) {
      const most = Math.floor(INPUT_BYTES / perInput) * block;
      throw new UserError(`--kv-cache-memory of ${bytes} bytes is too much: with this model it is ${most} at most.`);
    }
    try {
      return new CachePool({ ...shape, numBlocks });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      throw new UserError(`--kv-cache-memory of ${bytes} bytes cannot be allocated in one piece; ask for less.`);
    }
  }

  /** Writes the rows of a step; row r goes to slot `slots[r]`, counted through all pages. */
  write({ rows: present, scales }: StoredRows, slots: Int32Array): void {
    const { layers, kvHeads, headSize, blockSize, type } = this.shape;
    const runs = runsOf(slots, blockSize);
    const byWords = writtenByWords(this.shape);
    const source = byWords ? wordsOf(present) : present;
    const unit = byWords ? (headSize * present.BYTES_PER_ELEMENT) / 4 : headSize;
    const matrix = slots.length * kvHeads;
    const { quads, rest } = type === 'int8' && byWords ? splitQuads(runs) : { quads: [], rest: runs };
    for (let layer = 0; layer < layers; layer++) {
      const [keys, values] = [this.keys[layer] as CacheArray, this.values[layer] as CacheArray];
      const first = 2 * layer * matrix;
      const rows = (from: number) => ({ kvHeads, headSize: unit, blockSize, from: from * unit });
      copyRows(source, this.#valueWords[layer] ?? values, runs, rows(first + matrix));
      if (type !== 'int8') {
        copyRows(source, this.#keyWords[layer] ?? keys, runs, rows(first));
        continue;
      }
      const bytes = { kvHeads, headSize, blockSize, from: first * headSize };
      if (byWords) transposeWords(source as Int32Array, this.#keyWords[layer] as Int32Array, quads, bytes);
      transposeRows(present as Int8Array, keys as Int8Array, rest, bytes);
    }
    if (scales !== undefined) this.#writeScales(scales, slots);
  }

  #writeScales(scales: Float32Array, slots: Int32Array): void {
    const { kvHeads, blockSize } = this.shape;
    let source = 0;
    for (const target of this.scales) {
      for (const first of [0, kvHeads]) {
        for (const slot of slots) {
          const block = Math.floor(slot / blockSize);
          let place = (2 * block * kvHeads + first) * blockSize + slot - block * blockSize;
          for (let head = 0; head < kvHeads; head++) {
            target[place] = scales[source++] as number;
            place += blockSize;
          }
        }
      }
    }
  }

  /** Copies whole pages, in order. */
  copyPages(source: ArrayLike<number>, target: ArrayLike<number>): void {
    const page = pageElements(this.shape);
    const copy = (pools: readonly (CacheArray | Float32Array)[], size: number, from: number, to: number) => {
      for (const pool of pools) pool.copyWithin(to * size, from * size, (from + 1) * size);
    };
    for (let i = 0; i < source.length; i++) {
      const from = source[i] as number;
      const to = target[i] as number;
      copy(this.keys, page.rows, from, to);
      copy(this.values, page.rows, from, to);
      copy(this.scales, page.scales, from, to);
    }
  }
}
