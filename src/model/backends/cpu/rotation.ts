/**
 * Weights in a rotated basis, in which activations have no outliers and can be quantized to 8 bits (the idea of QuaRot,
 * arXiv 2404.00456). The residual stream is multiplied by an orthogonal Q, value heads and the input of `down` by
 * Hadamard matrices; all but the last fold into the weights, so that the model computes the same function. RMSNorm
 * weights are folded into the matrices after them first: only a norm without weights commutes with Q.
 *
 * It holds for decoders whose norms come before attention and feed-forward. A post-norm's weight stands between a matrix
 * and the residual stream and cannot be folded through Q; `canRotate` says so.
 */
import type { Architecture, ParameterName } from '../../architecture.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import { type BalanceFactors, balanceFactors } from './balance.js';
import {
  applyHadamardToColumns,
  applyHadamardToRows,
  powerOfTwoFactor,
  randomOrthogonal,
  randomSigns,
  scaleColumns,
  scaleRows,
} from './hadamard.js';

export function canRotate(architecture: Architecture): boolean {
  return !architecture.postNorms && architecture.hiddenSize >= NARROWEST;
}

/** A rotation mixes too few elements of a narrower residual stream to make them normal; blocks are closer to fp32 there. */
const NARROWEST = 256;

/** Width of the Hadamard blocks at the input of `down`; the graph applies the same to the activations. */
export function downBlock(architecture: Architecture): number {
  return Math.min(64, powerOfTwoFactor(architecture.intermediateSize));
}

/** Reads parameters of a checkpoint folded, rotated and balanced. Norm weights are gone: every norm's weight is one. */
export class RotatedParameters {
  readonly #architecture: Architecture;
  readonly #residual: Rotation;
  readonly #headBlock: number;
  /** Of the input of `down`; `up` brings them along. */
  readonly #downSigns: Float32Array;
  /** Those of the layer that is being read. */
  #balanced: { readonly layer: number; readonly factors: BalanceFactors } | undefined;

  constructor(private readonly checkpoint: Checkpoint) {
    this.#architecture = checkpoint.architecture;
    this.#residual = new Rotation(this.#architecture.hiddenSize);
    this.#headBlock = powerOfTwoFactor(this.#architecture.headSize);
    this.#downSigns = randomSigns(this.#architecture.intermediateSize, 5000);
  }

  /** Matrices [outputs, inputs] and biases, row-major. */
  async read(name: ParameterName): Promise<Float32Array> {
    const { checkpoint } = this;
    const { hiddenSize, intermediateSize, numHeads, headSize } = this.#architecture;
    const data = await checkpoint.readFloat32(name);
    const [, layer, part] = /^layers\.(\d+)\.(\w+)$/.exec(name) ?? [];
    switch (part ?? name) {
      case 'embedding':
        this.#residual.rotateRows(data);
        return data;
      case 'head':
        await this.#foldNorm(data, 'finalNorm');
        this.#residual.rotateRows(data);
        return data;
      case 'q':
      case 'k':
        await this.#foldNorm(data, `layers.${Number(layer)}.attentionNorm`);
        this.#residual.rotateRows(data);
        await this.#balance(data, Number(layer), part as 'q' | 'k');
        return data;
      case 'v':
        await this.#foldNorm(data, `layers.${Number(layer)}.attentionNorm`);
        this.#residual.rotateRows(data);
        applyHadamardToColumns(data, hiddenSize, this.#headBlock);
        return data;
      case 'qBias':
      case 'kBias':
        await this.#balance(data, Number(layer), part === 'qBias' ? 'q' : 'k');
        return data;
      case 'vBias':
        applyHadamardToColumns(data, 1, this.#headBlock);
        return data;
      case 'gate':
      case 'up':
        await this.#foldNorm(data, `layers.${Number(layer)}.ffnNorm`);
        this.#residual.rotateRows(data);
        if (part === 'up') scaleRows(data, this.#downSigns);
        return data;
      case 'o':
        applyHadamardToRows(data, numHeads * headSize, this.#headBlock);
        this.#residual.rotateColumns(data, numHeads * headSize);
        return data;
      case 'down':
        scaleColumns(data, this.#downSigns);
        applyHadamardToRows(data, intermediateSize, downBlock(this.#architecture));
        this.#residual.rotateColumns(data, intermediateSize);
        return data;
      default:
        return data;
    }
  }

  /** The embedding matrix as head: with the final norm folded in, which the embedding itself must not have. */
  async readTiedHead(): Promise<Float32Array> {
    const data = await this.checkpoint.readFloat32('embedding');
    await this.#foldNorm(data, 'finalNorm');
    this.#residual.rotateRows(data);
    return data;
  }

  /** What queries and keys of a layer are multiplied by, in one place: their matrices and biases, or norms of heads. */
  async balance(layer: number): Promise<BalanceFactors> {
    if (this.#balanced?.layer !== layer) {
      this.#balanced = { layer, factors: await balanceFactors(this.checkpoint, layer) };
    }
    return this.#balanced.factors;
  }

  /** A norm of heads would undo it: its weights are multiplied instead. */
  async #balance(rows: Float32Array, layer: number, part: 'q' | 'k'): Promise<void> {
    if (!this.#architecture.qkNorm) scaleRows(rows, (await this.balance(layer))[part]);
  }

  /** Multiplies each column by the weight that the norm before it would have applied to its input. */
  async #foldNorm(matrix: Float32Array, norm: ParameterName): Promise<void> {
    scaleColumns(matrix, await this.checkpoint.readFloat32(norm));
  }
}

/** Q = S (R ⊗ H): random signs, a random orthogonal matrix over the odd part of the width and a Hadamard matrix over its powers of two. */
class Rotation {
  readonly #block: number;
  readonly #groups: number;
  readonly #mix: Float64Array;
  readonly #signs: Float32Array;

  constructor(private readonly width: number) {
    this.#block = powerOfTwoFactor(width);
    this.#groups = width / this.#block;
    this.#mix = randomOrthogonal(this.#groups);
    this.#signs = randomSigns(width);
  }

  /** data [rows, width] times Q, in place. */
  rotateRows(data: Float32Array): void {
    scaleColumns(data, this.#signs);
    applyHadamardToRows(data, this.width, this.#block);
    if (this.#groups === 1) return;
    const row = new Float64Array(this.width);
    for (let start = 0; start < data.length; start += this.width) {
      row.fill(0);
      for (let i = 0; i < this.#groups; i++) {
        for (let j = 0; j < this.#groups; j++) {
          const weight = this.#mix[i * this.#groups + j] as number;
          const from = start + i * this.#block;
          const to = j * this.#block;
          for (let e = 0; e < this.#block; e++)
            row[to + e] = (row[to + e] as number) + weight * (data[from + e] as number);
        }
      }
      data.set(row, start);
    }
  }

  /** Q transposed times data [width, columns], in place. */
  rotateColumns(data: Float32Array, columns: number): void {
    scaleRows(data, this.#signs);
    applyHadamardToColumns(data, columns, this.#block);
    if (this.#groups === 1) return;
    const groupSize = this.#block * columns;
    const source = data.slice();
    data.fill(0);
    for (let i = 0; i < this.#groups; i++) {
      for (let j = 0; j < this.#groups; j++) {
        const weight = this.#mix[i * this.#groups + j] as number;
        const from = i * groupSize;
        const to = j * groupSize;
        for (let e = 0; e < groupSize; e++) {
          data[to + e] = (data[to + e] as number) + weight * (source[from + e] as number);
        }
      }
    }
  }
}
