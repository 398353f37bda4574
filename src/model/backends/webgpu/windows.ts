/**
 * Sliding windows for drivers on which the provider's own kernel for them is wrong (Mesa's software driver: results
 * beyond one subgroup of keys). The window of every row is gathered from the cache into a scratch cache of its own, where
 * it begins at slot 0, and attended to without a window. Exact, but it moves rows * window slots a layer.
 */
import { Tensor } from 'onnxruntime-node';
import type { Architecture } from '../../architecture.js';
import { Float, type GraphBuilder, type Value } from '../../graph/builder.js';
import type { StepBatch } from '../../runner.js';
import { cacheNames, INPUTS } from './names.js';
import type { RopeTables } from './weights.js';

const MICROSOFT = 'com.microsoft';
/** Tokens of a scratch block; windows are padded to whole ones. */
const SCRATCH_BLOCK = 32;

/** i64 [1, T] position of each row; only in graphs with repacked windows. */
const POSITIONS = 'position_ids';

/** Inputs for one window size W; N = ceil(W / 32). */
function windowInputs(window: number) {
  return {
    /** i32 [T * N, 32] slots of the cache that a row sees besides itself, in order, padded with slot 0. */
    slots: `window_${window}_slots`,
    /** i32 [T] how many they are. */
    past: `window_${window}_past_lengths`,
    /** i32 [T, N] blocks of the scratch cache. */
    table: `window_${window}_block_table`,
    /** i32 [T + 1] one row each. */
    cumulative: `window_${window}_cumulative_lengths`,
    /** i32 [3] as `INPUTS.metadata`. */
    metadata: `window_${window}_metadata`,
  };
}

export function distinctWindows(architecture: Architecture): number[] {
  const windows = architecture.layers.map((layer) => layer.slidingWindow).filter((window) => window !== undefined);
  return [...new Set(windows)];
}

export function declareWindowInputs(g: GraphBuilder, architecture: Architecture): void {
  const windows = distinctWindows(architecture);
  if (windows.length > 0) g.input(POSITIONS, 'int64', [1, 'num_tokens']);
  for (const window of windows) {
    const inputs = windowInputs(window);
    g.input(inputs.slots, 'int32', ['window_blocks', SCRATCH_BLOCK]);
    g.input(inputs.past, 'int32', ['num_tokens']);
    g.input(inputs.table, 'int32', ['num_tokens', Math.ceil(window / SCRATCH_BLOCK)]);
    g.input(inputs.cumulative, 'int32', ['num_tokens_plus_one']);
    g.input(inputs.metadata, 'int32', [3]);
  }
}

/** q, k, v rows, not rotated, of one layer; returns attention's output [T, heads * head size] and writes the cache. */
export function repackedAttention(
  g: GraphBuilder,
  architecture: Architecture,
  layer: number,
  window: number,
  rows: { q: Value; k: Value; v: Value },
  rope: RopeTables,
): Value {
  const { numHeads, numKvHeads, headSize } = architecture;
  const inputs = windowInputs(window);
  const { past, present } = cacheNames(layer);
  return g.scope(`layers.${layer}.window`, () => {
    const rotated = (x: Value, heads: number, name: string) => {
      const batched = g.node('Unsqueeze', [x, g.int64([0])], { name: `${name}_batch` });
      const turned = g.node('RotaryEmbedding', [batched, POSITIONS, rope.cos, rope.sin], {
        domain: MICROSOFT,
        name,
        interleaved: 0,
        num_heads: heads,
        rotary_embedding_dim: rope.dimensions === headSize ? 0 : rope.dimensions,
      });
      return g.node('Squeeze', [turned, g.int64([0])], { name: `${name}_rows` });
    };
    const q = rotated(rows.q, numHeads, 'rope_q');
    const k = rotated(rows.k, numKvHeads, 'rope_k');
    const attributes = {
      domain: MICROSOFT,
      num_heads: numHeads,
      kv_num_heads: numKvHeads,
      scale: new Float(architecture.attentionScale),
    };
    const none = Array<Value>(8).fill('');

    // Its output is not used: this is what writes the step's keys and values into the cache.
    g.nodes(
      'PagedAttention',
      [
        q,
        k,
        rows.v,
        ...past,
        INPUTS.cumulativeLengths,
        INPUTS.pastLengths,
        INPUTS.blockTable,
        ...none,
        INPUTS.metadata,
      ],
      [`layers.${layer}.written`, ...present],
      { ...attributes, name: 'write' },
    );
    const scratch = (cache: Value, name: string) => {
      const slots = g.node('Reshape', [cache, g.int64([-1, numKvHeads, headSize])], { name: `${name}_slots` });
      return g.node('Gather', [slots, inputs.slots], { axis: 0, name: `${name}_window` });
    };
    const [output] = g.nodes(
      'PagedAttention',
      [
        q,
        k,
        rows.v,
        scratch(present[0], 'key'),
        scratch(present[1], 'value'),
        inputs.cumulative,
        inputs.past,
        inputs.table,
        ...none,
        inputs.metadata,
      ],
      [`layers.${layer}.attention`],
      { ...attributes, name: 'attend' },
    );
    return output as Value;
  });
}

/** What a step's batch looks like through windows: the inputs that `declareWindowInputs` declares. */
export function windowFeeds(batch: StepBatch, blockSize: number, windows: readonly number[]): Record<string, Tensor> {
  const rows = batch.tokens.length;
  const sequences = Int32Array.from({ length: rows });
  const positions = new Int32Array(rows);
  for (let sequence = 0; sequence < batch.pastLengths.length; sequence++) {
    const begin = batch.cumulativeLengths[sequence]!;
    for (let row = begin; row < batch.cumulativeLengths[sequence + 1]!; row++) {
      sequences[row] = sequence;
      positions[row] = batch.pastLengths[sequence]! + row - begin;
    }
  }
  const feeds: Record<string, Tensor> = {
    [POSITIONS]: new Tensor('int64', BigInt64Array.from(positions, BigInt), [1, rows]),
  };
  for (const window of windows) {
    const blocks = Math.ceil(window / SCRATCH_BLOCK);
    const slots = new Int32Array(rows * blocks * SCRATCH_BLOCK);
    const past = new Int32Array(rows);
    for (let row = 0; row < rows; row++) {
      const position = positions[row]!;
      const first = Math.max(0, position - window + 1);
      past[row] = position - first;
      const table = sequences[row]! * batch.maxBlocks;
      for (let i = 0, at = row * blocks * SCRATCH_BLOCK; i < past[row]!; i++, at++) {
        const seen = first + i;
        slots[at] = batch.blockTables[table + Math.floor(seen / blockSize)]! * blockSize + (seen % blockSize);
      }
    }
    const inputs = windowInputs(window);
    const int32 = (values: Int32Array, dims: number[]) => new Tensor('int32', values, dims);
    feeds[inputs.slots] = int32(slots, [rows * blocks, SCRATCH_BLOCK]);
    feeds[inputs.past] = int32(past, [rows]);
    feeds[inputs.table] = int32(
      Int32Array.from({ length: rows * blocks }, (_, i) => i),
      [rows, blocks],
    );
    feeds[inputs.cumulative] = int32(
      Int32Array.from({ length: rows + 1 }, (_, i) => i),
      [rows + 1],
    );
    const lengths = past.map((length) => length + 1);
    feeds[inputs.metadata] = int32(Int32Array.of(1, max(lengths), min(lengths)), [3]);
  }
  return feeds;
}

function max(values: Int32Array): number {
  return values.reduce((a, b) => Math.max(a, b));
}

function min(values: Int32Array): number {
  return values.reduce((a, b) => Math.min(a, b));
}
