/** Parameters of the CPU graphs on their way into the weight store, tensor by tensor. */
import type { Architecture, ParameterName } from '../../architecture.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import { concatenate } from '../../formats/concatenate.js';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import type { DataType } from '../../graph/data-type.js';
import type { WeightStore } from '../../graph/weight-store.js';
import { ropeTables } from '../../rope.js';
import type { BalanceFactors } from './balance.js';
import { scaleRows } from './hadamard.js';
import type { RopeTables } from './rows.js';

export class WeightWriter {
  readonly #values = new Map<string, Value>();

  constructor(
    private readonly g: GraphBuilder,
    private readonly store: WeightStore,
  ) {}

  /** The constant of this name. */
  value(name: string): Value {
    const value = this.#values.get(name);
    if (value === undefined) throw new Error(`no weight ${name}`);
    return value;
  }

  async put(name: string, type: DataType, shape: readonly number[], data: ArrayBufferView): Promise<void> {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    this.#values.set(name, this.g.weight(`${name}.weight`, type, shape, await this.store.write(bytes)));
  }

  async floats(name: string, shape: readonly number[], data: Float32Array): Promise<void> {
    await this.put(name, 'float32', shape, data);
  }

  /** Gives a constant a second name. */
  alias(name: string, of: string): void {
    this.#values.set(name, this.value(of));
  }

  /**
   * The norms that are applied as they are: those of single heads always, the others unless they were folded away.
   * @param balance what the norms of a layer's heads are to be multiplied by
   */
  async norms(
    checkpoint: Checkpoint,
    folded: boolean,
    balance?: (layer: number) => Promise<BalanceFactors>,
  ): Promise<void> {
    const { architecture } = checkpoint;
    const vector = async (name: ParameterName) => {
      const data = await checkpoint.readFloat32(name);
      await this.floats(name, [data.length], data);
    };
    for (let n = 0; n < architecture.layers.length; n++) {
      if (architecture.qkNorm) await this.#headNorm(checkpoint, n, await balance?.(n));
      if (folded) continue;
      await vector(`layers.${n}.attentionNorm`);
      await vector(`layers.${n}.ffnNorm`);
      if (!architecture.postNorms) continue;
      await vector(`layers.${n}.postAttentionNorm`);
      await vector(`layers.${n}.postFfnNorm`);
    }
    if (!folded) await vector('finalNorm');
  }

  /** The norm weights of all q heads and then all k heads of a layer, [heads + KV heads, head size]. */
  async #headNorm(checkpoint: Checkpoint, layer: number, balance?: BalanceFactors): Promise<void> {
    const { numHeads, numKvHeads, headSize } = checkpoint.architecture;
    const q = await checkpoint.readFloat32(`layers.${layer}.qNorm`);
    const k = await checkpoint.readFloat32(`layers.${layer}.kNorm`);
    const all = new Float32Array((numHeads + numKvHeads) * headSize);
    for (let head = 0; head < numHeads + numKvHeads; head++) all.set(head < numHeads ? q : k, head * headSize);
    if (balance !== undefined) scaleRows(all, concatenate([balance.q, balance.k]));
    await this.floats(`layers.${layer}.headNorm`, [numHeads + numKvHeads, headSize], all);
  }

  /** Cos and sin of every rope of the model, for positions 0 to `positions` - 1. */
  async ropes(architecture: Architecture, positions: number): Promise<RopeTables[]> {
    const tables: RopeTables[] = [];
    for (const [i, rope] of architecture.ropes.entries()) {
      const { cos, sin } = ropeTables(rope, positions);
      const shape = [positions, rope.dimensions / 2];
      await this.floats(`rope.${i}.cos`, shape, cos);
      await this.floats(`rope.${i}.sin`, shape, sin);
      tables.push({ cos: this.value(`rope.${i}.cos`), sin: this.value(`rope.${i}.sin`) });
    }
    return tables;
  }
}

/** The rows of several parameters one after another; `read` gives each. */
export async function readPacked(
  names: readonly ParameterName[],
  read: (name: ParameterName) => Promise<Float32Array>,
): Promise<Float32Array> {
  const parts: Float32Array[] = [];
  for (const name of names) parts.push(await read(name));
  return concatenate(parts);
}

/** Inputs of a linear layer, the length of its matrices' rows. */
export function inputWidth(checkpoint: Checkpoint, name: ParameterName): number {
  const width = checkpoint.info(name)?.shape[1];
  if (width === undefined) throw new Error(`${name} is not a matrix`);
  return width;
}
