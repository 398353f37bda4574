/**
 * The decoder as its formulas are, in f32 on the CPU, without a cache: the reference that a device is checked against.
 * It reads one parameter at a time, so that it needs neither a prepared model nor its memory.
 */
import { InferenceSession, Tensor } from 'onnxruntime-node';
import type { Architecture, LayerSpec, ParameterName } from './architecture.js';
import type { Checkpoint } from './formats/checkpoint.js';
import { GraphBuilder } from './graph/builder.js';
import { ropeTables } from './rope.js';

/** How a matrix looks to the device that is checked: quantized and dequantized again, say. */
export type StoredAs = (name: ParameterName, matrix: Float32Array, inputs: number) => Float32Array;

/** Logits after each of the tokens from `firstRow` on: f32 [tokens - firstRow, vocabulary] row-major. */
export async function referenceLogits(
  checkpoint: Checkpoint,
  tokens: readonly number[],
  firstRow: number,
  storedAs: StoredAs = (_, matrix) => matrix,
): Promise<Float32Array> {
  const product = await MatrixProduct.create();
  try {
    return await new Reference(checkpoint, product, storedAs).logits(tokens, firstRow);
  } finally {
    await product.release();
  }
}

class Reference {
  readonly #architecture: Architecture;

  constructor(
    private readonly checkpoint: Checkpoint,
    private readonly product: MatrixProduct,
    private readonly storedAs: StoredAs,
  ) {
    this.#architecture = checkpoint.architecture;
  }

  async logits(tokens: readonly number[], firstRow: number): Promise<Float32Array> {
    const { hiddenSize, embeddingScale, layers, tiedHead } = this.#architecture;
    const embedding = await this.checkpoint.readFloat32('embedding');
    let rows = new Float32Array(tokens.length * hiddenSize);
    tokens.forEach((token, row) => {
      for (let i = 0; i < hiddenSize; i++) {
        rows[row * hiddenSize + i] = embedding[token * hiddenSize + i]! * embeddingScale;
      }
    });
    for (const [n, layer] of layers.entries()) rows = await this.#layer(n, layer, rows);
    const normed = await this.#norm(rows.subarray(firstRow * hiddenSize), 'finalNorm');
    return this.#linear(normed, tiedHead ? 'embedding' : 'head');
  }

  async #layer(n: number, layer: LayerSpec, rows: Float32Array): Promise<Float32Array<ArrayBuffer>> {
    const { postNorms, activation } = this.#architecture;
    const at = <T extends string>(name: T) => `layers.${n}.${name}` as const;
    const attended = await this.#attention(n, layer, await this.#norm(rows, at('attentionNorm')));
    let update = await this.#linear(attended, at('o'));
    if (postNorms) update = await this.#norm(update, at('postAttentionNorm'));
    const middle = rows.map((x, i) => x + update[i]!);

    const normed = await this.#norm(middle, at('ffnNorm'));
    const up = await this.#linear(normed, at('up'));
    const activate = activation === 'silu' ? silu : geluTanh;
    const gated = (await this.#linear(normed, at('gate'))).map((x, i) => activate(x) * up[i]!);
    update = await this.#linear(gated, at('down'));
    if (postNorms) update = await this.#norm(update, at('postFfnNorm'));
    return middle.map((x, i) => x + update[i]!);
  }

  async #attention(n: number, layer: LayerSpec, rows: Float32Array): Promise<Float32Array> {
    const { numHeads, numKvHeads, headSize, attentionScale, qkvBias, qkNorm } = this.#architecture;
    const project = async (name: 'q' | 'k' | 'v') => {
      const projected = await this.#linear(rows, `layers.${n}.${name}`);
      if (!qkvBias) return projected;
      const bias = await this.checkpoint.readFloat32(`layers.${n}.${name}Bias`);
      return projected.map((x, i) => x + bias[i % bias.length]!);
    };
    const rotated = async (name: 'q' | 'k', heads: number) => {
      let projected = await project(name);
      if (qkNorm) projected = await this.#norm(projected, `layers.${n}.${name}Norm`);
      this.#rotate(projected, layer, heads);
      return projected;
    };
    const q = await rotated('q', numHeads);
    const k = await rotated('k', numKvHeads);
    const v = await project('v');

    const count = q.length / (numHeads * headSize);
    const out = new Float32Array(q.length);
    const weights = new Float32Array(count);
    for (let position = 0; position < count; position++) {
      const first = layer.slidingWindow === undefined ? 0 : Math.max(0, position - layer.slidingWindow + 1);
      for (let head = 0; head < numHeads; head++) {
        const query = (position * numHeads + head) * headSize;
        const kvHead = Math.floor((head * numKvHeads) / numHeads);
        const seen = (other: number) => (other * numKvHeads + kvHead) * headSize;
        let largest = Number.NEGATIVE_INFINITY;
        for (let other = first; other <= position; other++) {
          let dot = 0;
          for (let i = 0, key = seen(other); i < headSize; i++) dot += q[query + i]! * k[key + i]!;
          weights[other] = dot * attentionScale;
          largest = Math.max(largest, weights[other]!);
        }
        let total = 0;
        for (let other = first; other <= position; other++) {
          weights[other] = Math.exp(weights[other]! - largest);
          total += weights[other]!;
        }
        for (let other = first; other <= position; other++) {
          const share = weights[other]! / total;
          for (let i = 0, value = seen(other); i < headSize; i++) out[query + i]! += share * v[value + i]!;
        }
      }
    }
    return out;
  }

  /** Turns rows [T, heads * head size] in place; pair i is elements i and i + dimensions / 2. */
  #rotate(rows: Float32Array, layer: LayerSpec, heads: number): void {
    const { headSize, ropes } = this.#architecture;
    const rope = ropes[layer.rope]!;
    const pairs = rope.dimensions / 2;
    const count = rows.length / (heads * headSize);
    const { cos, sin } = ropeTables(rope, count);
    for (let position = 0; position < count; position++) {
      for (let head = 0; head < heads; head++) {
        const start = (position * heads + head) * headSize;
        for (let i = 0; i < pairs; i++) {
          const c = cos[position * pairs + i]!;
          const s = sin[position * pairs + i]!;
          const a = rows[start + i]!;
          const b = rows[start + pairs + i]!;
          rows[start + i] = a * c - b * s;
          rows[start + pairs + i] = b * c + a * s;
        }
      }
    }
  }

  async #norm(rows: Float32Array, name: ParameterName): Promise<Float32Array> {
    const weight = await this.checkpoint.readFloat32(name);
    const width = weight.length;
    const out = new Float32Array(rows.length);
    for (let start = 0; start < rows.length; start += width) {
      let squares = 0;
      for (let i = 0; i < width; i++) squares += rows[start + i]! ** 2;
      const scale = 1 / Math.sqrt(squares / width + this.#architecture.normEpsilon);
      for (let i = 0; i < width; i++) out[start + i] = rows[start + i]! * scale * weight[i]!;
    }
    return out;
  }

  async #linear(rows: Float32Array, name: ParameterName): Promise<Float32Array> {
    const [outputs, inputs] = this.checkpoint.info(name)!.shape as [number, number];
    const matrix = this.storedAs(name, await this.checkpoint.readFloat32(name), inputs);
    return this.product.run(rows, matrix, outputs, inputs);
  }
}

/** rows [T, inputs] times a matrix [outputs, inputs], transposed, by ONNX Runtime. */
class MatrixProduct {
  private constructor(private readonly session: InferenceSession) {}

  static async create(): Promise<MatrixProduct> {
    const g = new GraphBuilder('product');
    const rows = g.input('rows', 'float32', ['T', 'inputs']);
    const matrix = g.input('matrix', 'float32', ['outputs', 'inputs']);
    g.nodes('FusedMatMul', [rows, matrix], ['product'], { domain: 'com.microsoft', transB: 1 });
    g.output('product', 'float32', ['T', 'outputs']);
    return new MatrixProduct(await InferenceSession.create(g.toBytes(), { enableMemPattern: false }));
  }

  async run(rows: Float32Array, matrix: Float32Array, outputs: number, inputs: number): Promise<Float32Array> {
    const { product } = await this.session.run({
      rows: new Tensor('float32', rows, [rows.length / inputs, inputs]),
      matrix: new Tensor('float32', matrix, [outputs, inputs]),
    });
    return product!.data as Float32Array;
  }

  release(): Promise<void> {
    return this.session.release();
  }
}

const silu = (x: number): number => x / (1 + Math.exp(-x));

const geluTanh = (x: number): number => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
