/**
 * The CPU lowering in 8 bits (W8A8): int8 weights with a scale per output, int8 activations with a scale per row, integer
 * products. Weights are rotated first (`rotation.ts`), which takes the outliers out of the activations. A row's result
 * does not depend on the other rows of the step.
 */
import type { ParameterName } from '../../architecture.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import { decoderLinears, type LinearLayer, type Lowering } from '../../graph/decoder.js';
import type { WeightStore } from '../../graph/weight-store.js';
import { applyHadamardToRows } from './hadamard.js';
import { quantizeColumns } from './quantize.js';
import { downBlock, RotatedParameters } from './rotation.js';
import { attentionBlock, ROW_INPUTS, type RopeTables } from './rows.js';
import { bytesOf, concatenate, headNorms, storeRopes } from './weights.js';

/**
 * Behind a norm without weights a rotated row has root mean square 1 and nearly normal elements: one fixed range of
 * four deviations loses less than a range per row gains, and saves its nodes.
 */
const NORM_RANGE = 4;

const MICROSOFT = 'com.microsoft';

export async function int8Lowering(
  g: GraphBuilder,
  checkpoint: Checkpoint,
  store: WeightStore,
  positions: number,
  progress: (fraction: number) => void,
): Promise<{ lowering: Lowering; present: Value[] }> {
  const { architecture } = checkpoint;
  const weights = await storeParameters(g, checkpoint, store, progress);
  const ropes = await storeRopes(g, architecture, store, positions);
  const present: Value[] = [];
  const weight = (name: string): Value => {
    const value = weights.get(name);
    if (value === undefined) throw new Error(`no weight ${name}`);
    return value;
  };
  const ones = g.constant('float32', [architecture.hiddenSize], new Float32Array(architecture.hiddenSize).fill(1));
  const zeroPoint = g.constant('uint8', [], Uint8Array.of(128));
  const unit = g.float32Scalar(1);
  const normScale = g.float32Scalar(NORM_RANGE / 127);
  /** By input: q, k and v of a layer share one quantized row, so do gate and up. */
  const quantized = new Map<Value, Value>();

  const product = (g: GraphBuilder, layer: LinearLayer, rows: Value, scale: Value): Value =>
    g.node(
      'MatMulIntegerToFloat',
      [
        rows,
        weight(layer.name),
        scale,
        weight(`${layer.name}.scale`),
        zeroPoint,
        '',
        layer.biases.length > 0 ? weight(`${layer.name}.bias`) : '',
      ],
      { domain: MICROSOFT, name: layer.name },
    );

  const lowering: Lowering = {
    embed(g) {
      const rows = g.node('Gather', [weight('embedding'), ROW_INPUTS.tokens], { axis: 0, name: 'embedding_rows' });
      if (architecture.embeddingScale === 1) return rows;
      return g.node('Mul', [rows, g.float32Scalar(architecture.embeddingScale)], { name: 'embedding_scaled' });
    },
    linear(g, layer, input) {
      if (layer.input === 'norm') {
        let rows = quantized.get(input);
        if (rows === undefined) {
          rows = g.node('QuantizeLinear', [input, normScale, zeroPoint], { name: `${layer.name}.rows` });
          quantized.set(input, rows);
        }
        return product(g, layer, rows, normScale);
      }
      const x =
        layer.input === 'activation'
          ? hadamardRows(g, layer, input, weight('hadamard'), downBlock(architecture), architecture.intermediateSize)
          : input;
      // The row's own range: its largest magnitude, kept off zero for rows that are all zero.
      const magnitude = g.node('ReduceMax', [g.node('Abs', [x], { name: `${layer.name}.abs` }), g.int64([-1])], {
        name: `${layer.name}.max`,
        keepdims: 1,
      });
      const scale = g.node('Mul', [magnitude, g.float32Scalar(1 / 127)], { name: `${layer.name}.row_scale` });
      const safe = g.node('Max', [scale, g.float32Scalar(1e-30)], { name: `${layer.name}.row_scale_safe` });
      const flat = g.node('Reshape', [safe, g.int64([-1])], { name: `${layer.name}.row_scales` });
      const rows = g.node('QuantizeLinear', [x, flat, g.node('Expand', [zeroPoint, g.node('Shape', [flat])])], {
        name: `${layer.name}.rows`,
        axis: 1,
      });
      return g.node('Mul', [product(g, layer, rows, unit), safe], { name: `${layer.name}.scaled` });
    },
    attention(g, layer, qkv) {
      const rope = ropes[architecture.layers[layer]?.rope ?? 0] as RopeTables;
      const headNorm = architecture.qkNorm ? weight(`layers.${layer}.headNorm`) : undefined;
      const block = attentionBlock(g, architecture, layer, qkv, rope, headNorm);
      present.push(block.present);
      return block.output;
    },
    normWeight: () => ones,
    logitRows: (g, rows) => g.node('Gather', [rows, ROW_INPUTS.logitRows], { axis: 1, name: 'logit_rows_of' }),
  };
  return { lowering, present };
}

/** Rotates blocks of the rows, as the weights of `down` expect. */
function hadamardRows(
  g: GraphBuilder,
  layer: LinearLayer,
  x: Value,
  matrix: Value,
  block: number,
  width: number,
): Value {
  if (block === 1) return x;
  const blocks = g.node('Reshape', [x, g.int64([1, -1, block])], { name: `${layer.name}.blocks` });
  const rotated = g.node('MatMul', [blocks, matrix], { name: `${layer.name}.rotated` });
  return g.node('Reshape', [rotated, g.int64([1, -1, width])], { name: `${layer.name}.rotated_rows` });
}

async function storeParameters(
  g: GraphBuilder,
  checkpoint: Checkpoint,
  store: WeightStore,
  progress: (fraction: number) => void,
): Promise<Map<string, Value>> {
  const { architecture } = checkpoint;
  const parameters = new RotatedParameters(checkpoint);
  const weights = new Map<string, Value>();
  const putFloats = async (name: string, shape: readonly number[], data: Float32Array) => {
    weights.set(name, g.weight(`${name}.weight`, 'float32', shape, await store.write(bytesOf(data))));
  };
  const putMatrix = async (name: string, matrix: Float32Array, width: number) => {
    const outputs = matrix.length / width;
    const { values, scales } = quantizeColumns(matrix, outputs, width);
    weights.set(name, g.weight(`${name}.weight`, 'int8', [width, outputs], await store.write(bytesOf(values))));
    await putFloats(`${name}.scale`, [outputs], scales);
  };
  const readAll = async (names: readonly ParameterName[]) => {
    const parts: Float32Array[] = [];
    for (const name of names) parts.push(await parameters.read(name));
    return concatenate(parts);
  };
  const linear = async (layer: LinearLayer) => {
    const width = checkpoint.info(layer.parameters[0] as ParameterName)?.shape[1] as number;
    await putMatrix(layer.name, await readAll(layer.parameters), width);
    if (layer.biases.length > 0) {
      const bias = await readAll(layer.biases);
      await putFloats(`${layer.name}.bias`, [bias.length], bias);
    }
  };

  const { hiddenSize, vocabSize, numHeads, numKvHeads, headSize } = architecture;
  await putFloats('embedding', [vocabSize, hiddenSize], await parameters.read('embedding'));
  const block = downBlock(architecture);
  const hadamard = new Float32Array(block * block);
  for (let i = 0; i < block; i++) hadamard[i * block + i] = 1;
  applyHadamardToRows(hadamard, block, block);
  await putFloats('hadamard', [block, block], hadamard);

  const { layers, head } = decoderLinears(architecture);
  for (const [n, layer] of layers.entries()) {
    for (const name of ['qkv', 'o', 'gateUp', 'down'] as const) await linear(layer[name]);
    if (architecture.qkNorm) {
      const q = await checkpoint.readFloat32(`layers.${n}.qNorm`);
      const k = await checkpoint.readFloat32(`layers.${n}.kNorm`);
      await putFloats(`layers.${n}.headNorm`, [numHeads + numKvHeads, headSize], headNorms(architecture, q, k));
    }
    progress((n + 1) / (layers.length + 1));
  }
  if (architecture.tiedHead) await putMatrix('head', await parameters.readTiedHead(), hiddenSize);
  else await linear(head);
  progress(1);
  return weights;
}
