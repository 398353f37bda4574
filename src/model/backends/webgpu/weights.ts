/**
 * Parameters of the WebGPU graph: fp16, or linear layers in blocks of 8 or 4 bits. An embedding and a head that are the
 * same fp16 matrix are one tensor on the device.
 */
import { LoadError } from '../../../errors.js';
import type { Architecture, ParameterName } from '../../architecture.js';
import { isWithinFloat16, toFloat16 } from '../../float16.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import { concatenate } from '../../formats/concatenate.js';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import { decoderLinears, type LinearLayer } from '../../graph/decoder.js';
import type { WeightStore } from '../../graph/weight-store.js';
import { ropeTables } from '../../rope.js';
import { BLOCK_LENGTH, dequantizeBlocks, quantizeBlocks } from '../block-quantize.js';
import type { WebGpuPrecision } from './graph.js';

/** fp16 [positions, dimensions / 2] each. */
export interface RopeTables {
  readonly dimensions: number;
  readonly cos: Value;
  readonly sin: Value;
}

export interface StoredWeights {
  readonly ropes: readonly RopeTables[];
  /** The vector or matrix of this name in fp16. */
  value(name: string): Value;
  /** Rows of the embedding, [T, hidden size]. */
  embed(g: GraphBuilder, tokens: Value): Value;
  /** input [rows, inputs] times the layer's matrix, transposed, plus its bias: [rows, outputs]. */
  linear(g: GraphBuilder, layer: LinearLayer, input: Value): Value;
}

type Matrix =
  /** [inputs, outputs] */
  | { readonly kind: 'columns'; readonly weight: Value }
  /** [outputs, inputs]: the embedding, where it is the head as well. */
  | { readonly kind: 'rows'; readonly weight: Value }
  | {
      readonly kind: 'blocks';
      readonly bits: 4 | 8;
      readonly outputs: number;
      readonly inputs: number;
      readonly quants: Value;
      readonly scales: Value;
    };

/** Reads the checkpoint's parameters tensor by tensor and writes them in the form the device takes. */
export async function storeWeights(
  g: GraphBuilder,
  checkpoint: Checkpoint,
  store: WeightStore,
  precision: WebGpuPrecision,
  progress: (fraction: number) => void,
): Promise<StoredWeights> {
  const { architecture } = checkpoint;
  const writer = new WeightWriter(g, checkpoint, store, precision);
  const { layers, head } = decoderLinears(architecture);
  await writer.embedding();
  for (const [n, layer] of layers.entries()) {
    for (const name of normNames(architecture)) await writer.vector(`layers.${n}.${name}`);
    for (const name of ['qkv', 'o', 'gateUp', 'down'] as const) await writer.linear(layer[name]);
    progress((n + 1) / layers.length);
  }
  await writer.vector('finalNorm');
  await writer.head(head);
  return writer.finish(await storeRopes(g, architecture, store));
}

function normNames(architecture: Architecture) {
  const norms = ['attentionNorm', 'ffnNorm'] as const;
  const post = architecture.postNorms ? (['postAttentionNorm', 'postFfnNorm'] as const) : [];
  const heads = architecture.qkNorm ? (['qNorm', 'kNorm'] as const) : [];
  return [...norms, ...post, ...heads];
}

class WeightWriter {
  readonly #values = new Map<string, Value>();
  readonly #matrices = new Map<string, Matrix>();

  constructor(
    private readonly g: GraphBuilder,
    private readonly checkpoint: Checkpoint,
    private readonly store: WeightStore,
    private readonly precision: WebGpuPrecision,
  ) {}

  async embedding(): Promise<void> {
    const { vocabSize, hiddenSize } = this.checkpoint.architecture;
    await this.#half('embedding', [vocabSize, hiddenSize], await this.#read('embedding'));
  }

  async vector(name: ParameterName): Promise<void> {
    const data = await this.#read(name);
    await this.#half(name, [data.length], data);
  }

  async linear(layer: LinearLayer, bits = this.#bits()): Promise<void> {
    const data = concatenate(await Promise.all(layer.parameters.map((name) => this.#read(name))));
    const inputs = this.checkpoint.info(layer.parameters[0] as ParameterName)?.shape[1] as number;
    const outputs = data.length / inputs;
    this.#matrices.set(layer.name, await this.#matrix(layer.name, outputs, inputs, data, bits));
    if (layer.biases.length > 0) {
      const bias = concatenate(await Promise.all(layer.biases.map((name) => this.#read(name))));
      await this.#half(`${layer.name}.bias`, [bias.length], bias);
    }
  }

  /** The head keeps 8 bits where the other layers have 4: it is where the loss shows most. */
  async head(layer: LinearLayer): Promise<void> {
    if (this.precision === 'fp16' && this.checkpoint.architecture.tiedHead) {
      this.#matrices.set(layer.name, { kind: 'rows', weight: this.#value('embedding') });
    } else {
      await this.linear(layer, this.precision === 'fp16' ? undefined : 8);
    }
  }

  finish(ropes: readonly RopeTables[]): StoredWeights {
    return {
      ropes,
      value: (name) => this.#value(name),
      embed: (g, tokens) => g.node('Gather', [this.#value('embedding'), tokens], { axis: 0, name: 'embedding_rows' }),
      linear: (g, layer, input) => {
        const matrix = this.#matrices.get(layer.name);
        if (matrix === undefined) throw new Error(`no weights of ${layer.name}`);
        const bias = layer.biases.length > 0 ? [this.#value(`${layer.name}.bias`)] : [];
        return product(g, layer.name, input, matrix, bias);
      },
    };
  }

  #bits(): 4 | 8 | undefined {
    return this.precision === 'fp16' ? undefined : this.precision === 'int8' ? 8 : 4;
  }

  #value(name: string): Value {
    const value = this.#values.get(name);
    if (value === undefined) throw new Error(`no weight ${name}`);
    return value;
  }

  async #read(name: ParameterName): Promise<Float32Array> {
    const data = await this.checkpoint.readFloat32(name);
    if (!isWithinFloat16(data)) {
      throw new LoadError(this.checkpoint.path, `${name} has values that fp16 cannot hold; use --device cpu.`);
    }
    return data;
  }

  async #half(name: string, shape: readonly number[], data: Float32Array): Promise<Value> {
    const stored = await this.store.write(bytesOf(toFloat16(data)));
    const value = this.g.weight(`${name}.weight`, 'float16', shape, stored);
    this.#values.set(name, value);
    return value;
  }

  async #matrix(
    name: string,
    outputs: number,
    inputs: number,
    data: Float32Array,
    bits: 4 | 8 | undefined,
  ): Promise<Matrix> {
    if (bits === undefined || inputs % BLOCK_LENGTH !== 0) {
      const columns = transpose(toFloat16(data), outputs, inputs);
      const stored = await this.store.write(bytesOf(columns));
      return { kind: 'columns', weight: this.g.weight(`${name}.weight`, 'float16', [inputs, outputs], stored) };
    }
    const { quants, scales } = quantizeBlocks(data, bits);
    const blocks = inputs / BLOCK_LENGTH;
    return {
      kind: 'blocks',
      bits,
      outputs,
      inputs,
      quants: this.g.weight(
        `${name}.quants`,
        'uint8',
        [outputs, blocks, (BLOCK_LENGTH * bits) / 8],
        await this.store.write(quants),
      ),
      scales: this.g.weight(`${name}.scales`, 'float16', [outputs * blocks], await this.store.write(bytesOf(scales))),
    };
  }
}

/** The checkpoint's matrices with what quantization does to them. */
export function matricesAsStored(
  precision: WebGpuPrecision,
): (name: ParameterName, matrix: Float32Array, inputs: number) => Float32Array {
  return (name, matrix, inputs) => {
    if (precision === 'fp16' || inputs % BLOCK_LENGTH !== 0) return matrix;
    const isHead = name === 'head' || name === 'embedding';
    const bits = isHead || precision === 'int8' ? 8 : 4;
    return dequantizeBlocks(quantizeBlocks(matrix, bits), bits);
  };
}

function product(g: GraphBuilder, name: string, input: Value, matrix: Matrix, bias: readonly Value[]): Value {
  // Gemm computes tiles of 32 rows whatever their number; MatMul has smaller ones for few rows, but no transposition.
  if (matrix.kind === 'rows') return g.node('Gemm', [input, matrix.weight, ...bias], { name, transB: 1 });
  const rows =
    matrix.kind === 'columns'
      ? g.node('MatMul', [input, matrix.weight], { name })
      : g.node('MatMulNBits', [input, matrix.quants, matrix.scales], {
          domain: 'com.microsoft',
          name,
          K: matrix.inputs,
          N: matrix.outputs,
          bits: matrix.bits,
          block_size: BLOCK_LENGTH,
        });
  return bias.length === 0 ? rows : g.node('Add', [rows, bias[0] as Value], { name: `${name}.biased` });
}

/** [rows, columns] to [columns, rows]. */
function transpose(matrix: Uint16Array, rows: number, columns: number): Uint16Array {
  const transposed = new Uint16Array(matrix.length);
  // In tiles that stay in the cache, since one side of a transposition is always strided.
  const tile = 64;
  for (let r0 = 0; r0 < rows; r0 += tile) {
    for (let c0 = 0; c0 < columns; c0 += tile) {
      for (let r = r0; r < Math.min(rows, r0 + tile); r++) {
        for (let c = c0; c < Math.min(columns, c0 + tile); c++) transposed[c * rows + r] = matrix[r * columns + c]!;
      }
    }
  }
  return transposed;
}

async function storeRopes(g: GraphBuilder, architecture: Architecture, store: WeightStore): Promise<RopeTables[]> {
  const tables: RopeTables[] = [];
  const positions = architecture.maxPositions;
  for (const [i, rope] of architecture.ropes.entries()) {
    const { cos, sin } = ropeTables(rope, positions);
    const shape = [positions, rope.dimensions / 2];
    const put = async (name: string, data: Float32Array) =>
      g.weight(`rope.${i}.${name}`, 'float16', shape, await store.write(bytesOf(toFloat16(data))));
    tables.push({ dimensions: rope.dimensions, cos: await put('cos', cos), sin: await put('sin', sin) });
  }
  return tables;
}

function bytesOf(data: ArrayBufferView): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}
