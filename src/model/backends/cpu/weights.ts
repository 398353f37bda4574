/** Shared by the CPU lowerings: parameters and tables on their way into the weight store. */
import type { Architecture } from '../../architecture.js';
import type { GraphBuilder } from '../../graph/builder.js';
import type { WeightStore } from '../../graph/weight-store.js';
import { ropeTables } from '../../rope.js';
import type { RopeTables } from './rows.js';

/** The norm weights of all q heads and then all k heads, [heads + KV heads, head size]. */
export function headNorms(architecture: Architecture, q: Float32Array, k: Float32Array): Float32Array {
  const { numHeads, numKvHeads, headSize } = architecture;
  const all = new Float32Array((numHeads + numKvHeads) * headSize);
  for (let head = 0; head < numHeads + numKvHeads; head++) all.set(head < numHeads ? q : k, head * headSize);
  return all;
}

/** Writes cos and sin of every rope of the model, for positions 0 to `positions` - 1. */
export async function storeRopes(
  g: GraphBuilder,
  architecture: Architecture,
  store: WeightStore,
  positions: number,
): Promise<RopeTables[]> {
  const tables: RopeTables[] = [];
  for (const [i, rope] of architecture.ropes.entries()) {
    const { cos, sin } = ropeTables(rope, positions);
    const shape = [positions, rope.dimensions / 2];
    tables.push({
      cos: g.weight(`rope.${i}.cos`, 'float32', shape, await store.write(bytesOf(cos))),
      sin: g.weight(`rope.${i}.sin`, 'float32', shape, await store.write(bytesOf(sin))),
    });
  }
  return tables;
}

/** The bytes of a typed array, without a copy. */
export function bytesOf(data: ArrayBufferView): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** One array with all elements; the same one when there is only one. */
export function concatenate(parts: readonly Float32Array[]): Float32Array {
  if (parts.length === 1) return parts[0] as Float32Array;
  const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
