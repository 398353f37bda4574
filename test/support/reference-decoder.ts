/**
 * A decoder written as its formulas are, in plain loops without cache or batching: what readers, graphs and backends are
 * held against. Slow; for tiny models and short prompts.
 */
import type { LayerParameter, LayerSpec } from '../../src/model/architecture.js';
import type { Checkpoint } from '../../src/model/formats/checkpoint.js';
import { type RopeTables, ropeTables } from '../../src/model/rope.js';

/** Logits after each of the tokens: one f32 [vocabSize] a token, for the rows from `firstRow` on. */
export async function referenceLogits(
  checkpoint: Checkpoint,
  tokens: readonly number[],
  firstRow = 0,
): Promise<Float32Array[]> {
  const a = checkpoint.architecture;
  const embedding = await checkpoint.readFloat32('embedding');
  let rows: Float32Array[] = tokens.map((token) =>
    embedding.slice(token * a.hiddenSize, (token + 1) * a.hiddenSize).map((value) => value * a.embeddingScale),
  );
  for (let layer = 0; layer < a.layers.length; layer++) {
    const weights = new Map<LayerParameter, Float32Array>();
    for (const name of LAYER_PARAMETERS) {
      if (checkpoint.info(`layers.${layer}.${name}`) === undefined) continue;
      weights.set(name, await checkpoint.readFloat32(`layers.${layer}.${name}`));
    }
    rows = decoderLayer(checkpoint, weights, a.layers[layer]!, rows);
  }
  const finalNorm = await checkpoint.readFloat32('finalNorm');
  const head = a.tiedHead ? embedding : await checkpoint.readFloat32('head');
  return rows.slice(firstRow).map((row) => linear(head, rmsNorm(row, finalNorm, a.normEpsilon)));
}

const LAYER_PARAMETERS: readonly LayerParameter[] = [
  'attentionNorm',
  'q',
  'k',
  'v',
  'qBias',
  'kBias',
  'vBias',
  'qNorm',
  'kNorm',
  'o',
  'postAttentionNorm',
  'ffnNorm',
  'gate',
  'up',
  'down',
  'postFfnNorm',
];

function decoderLayer(
  { architecture: a }: Checkpoint,
  weights: ReadonlyMap<LayerParameter, Float32Array>,
  layer: LayerSpec,
  rows: readonly Float32Array[],
): Float32Array[] {
  const weight = (name: LayerParameter): Float32Array => weights.get(name)!;
  const optionalNorm = (row: Float32Array, name: LayerParameter): Float32Array =>
    weights.has(name) ? rmsNorm(row, weight(name), a.normEpsilon) : row;
  const rope = a.ropes[layer.rope]!;
  const tables = ropeTables(rope, rows.length);

  const normed = rows.map((row) => rmsNorm(row, weight('attentionNorm'), a.normEpsilon));
  const project = (row: Float32Array, name: 'q' | 'k' | 'v'): Float32Array[] => {
    const heads = split(add(linear(weight(name), row), weights.get(`${name}Bias`)), a.headSize);
    return name === 'v' ? heads : heads.map((head) => optionalNorm(head, `${name}Norm`));
  };
  const rotated = (name: 'q' | 'k'): Float32Array[][] =>
    normed.map((row, position) =>
      project(row, name).map((head) => rotate(head, tables, rope.dimensions / 2, position)),
    );
  const queries = rotated('q');
  const keys = rotated('k');
  const values = normed.map((row) => project(row, 'v'));

  return rows.map((row, position) => {
    const first = layer.slidingWindow === undefined ? 0 : Math.max(0, position - layer.slidingWindow + 1);
    const attended = queries[position]!.flatMap((query, head) => {
      const kvHead = Math.floor((head * a.numKvHeads) / a.numHeads);
      const seen = keys.slice(first, position + 1).map((heads) => dot(query, heads[kvHead]!) * a.attentionScale);
      return [
        ...weightedSum(
          softmax(seen),
          values.slice(first, position + 1).map((heads) => heads[kvHead]!),
        ),
      ];
    });
    const attention = linear(weight('o'), Float32Array.from(attended));
    const middle = add(row, optionalNorm(attention, 'postAttentionNorm'));
    const input = rmsNorm(middle, weight('ffnNorm'), a.normEpsilon);
    const up = linear(weight('up'), input);
    const activate = a.activation === 'silu' ? silu : geluTanh;
    const gated = linear(weight('gate'), input).map((value, i) => activate(value) * up[i]!);
    return add(middle, optionalNorm(linear(weight('down'), gated), 'postFfnNorm'));
  });
}

function linear(matrix: Float32Array, input: Float32Array): Float32Array {
  const out = new Float32Array(matrix.length / input.length);
  for (let row = 0; row < out.length; row++) {
    let sum = 0;
    for (let i = 0, at = row * input.length; i < input.length; i++, at++) sum += matrix[at]! * input[i]!;
    out[row] = sum;
  }
  return out;
}

function rmsNorm(row: Float32Array, weight: Float32Array, epsilon: number): Float32Array {
  const scale = 1 / Math.sqrt(dot(row, row) / row.length + epsilon);
  return row.map((value, i) => value * scale * weight[i]!);
}

/** Half-split pairs: i turns with i + dimensions / 2. */
function rotate(head: Float32Array, tables: RopeTables, pairs: number, position: number): Float32Array {
  const out = head.slice();
  for (let i = 0; i < pairs; i++) {
    const cos = tables.cos[position * pairs + i]!;
    const sin = tables.sin[position * pairs + i]!;
    out[i] = head[i]! * cos - head[i + pairs]! * sin;
    out[i + pairs] = head[i + pairs]! * cos + head[i]! * sin;
  }
  return out;
}

function split(row: Float32Array, size: number): Float32Array[] {
  return Array.from({ length: row.length / size }, (_, i) => row.slice(i * size, (i + 1) * size));
}

function add(row: Float32Array, other: Float32Array | undefined): Float32Array {
  return other === undefined ? row : row.map((value, i) => value + other[i]!);
}

function dot(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0);
}

function softmax(scores: readonly number[]): number[] {
  const max = Math.max(...scores);
  const exponentials = scores.map((score) => Math.exp(score - max));
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return exponentials.map((value) => value / total);
}

function weightedSum(weights: readonly number[], rows: readonly Float32Array[]): Float32Array {
  return rows[0]!.map((_, i) => rows.reduce((sum, row, r) => sum + weights[r]! * row[i]!, 0));
}

const silu = (x: number): number => x / (1 + Math.exp(-x));

const geluTanh = (x: number): number => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
