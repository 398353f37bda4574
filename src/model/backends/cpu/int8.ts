/**
 * The CPU lowering in 8 bits (W8A8): int8 weights with a scale per output, int8 activations with a scale per row, integer
 * products. Weights are rotated first (`rotation.ts`), which takes the outliers out of the activations. A row's result
 * does not depend on the other rows of the step.
 */
import type { Architecture, ParameterName } from '../../architecture.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import { Float, type GraphBuilder, type Value } from '../../graph/builder.js';
import { decoderLinears, type LinearLayer, type Lowering } from '../../graph/decoder.js';
import type { WeightStore } from '../../graph/weight-store.js';
import { applyHadamardToRows } from './hadamard.js';
import { quantizeColumns } from './quantize.js';
import { downBlock, RotatedParameters } from './rotation.js';
import { attentionBlock, type LoweringOptions, ROW_INPUTS, type RopeTables } from './rows.js';
import { bytesOf, concatenate, headNorms, storeRopes } from './weights.js';

/**
 * Ranges of a row, in its root mean squares. Behind a norm without weights a rotated row is nearly normal, and four
 * deviations lose least; rows of attention and activation have heavier tails. Chosen by KL divergence to fp32.
 */
const NORM_RANGE = 4;
const ATTENTION_RANGE = 8;
const ACTIVATION_RANGE = 7;

const MICROSOFT = 'com.microsoft';

export async function int8Lowering(
  g: GraphBuilder,
  checkpoint: Checkpoint,
  store: WeightStore,
  { positions, cacheType }: LoweringOptions,
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
  const zeroPoint = g.constant('uint8', [], Uint8Array.of(128));
  const product = (g: GraphBuilder, layer: LinearLayer, input: { rows: Value; scale: Value }, bias: Value): Value =>
    g.node(
      'MatMulIntegerToFloat',
      [input.rows, weight(layer.name), input.scale, weight(`${layer.name}.scale`), zeroPoint, '', bias],
      { domain: MICROSOFT, name: layer.name },
    );
  const weightOrNone = (layer: LinearLayer) => (layer.biases.length > 0 ? weight(`${layer.name}.bias`) : '');
  const biased = (g: GraphBuilder, layer: LinearLayer, x: Value) =>
    layer.biases.length > 0 ? g.node('Add', [x, weight(`${layer.name}.bias`)], { name: `${layer.name}.biased` }) : x;

  const lowering: Lowering = {
    embed(g) {
      const rows = g.node('Gather', [weight('embedding'), ROW_INPUTS.tokens], { axis: 0, name: 'embedding_rows' });
      if (architecture.embeddingScale === 1) return rows;
      return g.node('Mul', [rows, g.float32Scalar(architecture.embeddingScale)], { name: 'embedding_scaled' });
    },
    linear(g, layer, input) {
      const name = (part: string) => `${layer.name}.${part}`;
      const quantize = (x: Value, range: number) => {
        const scale = g.float32Scalar(range / 127);
        return { rows: g.node('QuantizeLinear', [x, scale, zeroPoint], { name: name('rows') }), scale };
      };
      if (layer.input === 'norm') {
        if (!layer.name.endsWith('.qkv')) return product(g, layer, quantize(input, NORM_RANGE), weightOrNone(layer));
        // Keys and queries gain most from their row's own range: its largest magnitude, kept off zero.
        const magnitudes = g.node('Abs', [input], { name: name('abs') });
        const max = g.node('ReduceMax', [magnitudes, g.int64([-1])], { name: name('max'), keepdims: 1 });
        const range = g.node('Max', [max, g.float32Scalar(1e-30)], { name: name('range') });
        const quantized = quantize(g.node('Div', [input, range], { name: name('unit') }), 1);
        const scaled = g.node('Mul', [product(g, layer, quantized, ''), range], { name: name('scaled') });
        return biased(g, layer, scaled);
      }
      // The output of attention or activation: brought to root mean square 1 by the kernel of the norms, and back.
      const activation = layer.input === 'activation';
      const x = activation ? rotateBlocks(g, layer, input, weight('hadamard'), architecture) : input;
      const width = activation ? architecture.intermediateSize : architecture.numHeads * architecture.headSize;
      const [unit, inverse] = g.nodes('SimplifiedLayerNormalization', [x, ones(g, width)], 2, {
        name: name('unit'),
        axis: -1,
        epsilon: new Float(1e-12),
      }) as [Value, Value];
      const quantized = quantize(unit, activation ? ACTIVATION_RANGE : ATTENTION_RANGE);
      return biased(g, layer, g.node('Div', [product(g, layer, quantized, ''), inverse], { name: name('scaled') }));
    },
    attention(g, layer, qkv) {
      const rope = ropes[architecture.layers[layer]?.rope ?? 0] as RopeTables;
      const headNorm = architecture.qkNorm ? weight(`layers.${layer}.headNorm`) : undefined;
      const block = attentionBlock(g, architecture, layer, qkv, rope, headNorm, cacheType);
      present.push(block.present);
      return block.output;
    },
    normWeight: (g) => ones(g, architecture.hiddenSize),
    logitRows: (g, rows) => g.node('Gather', [rows, ROW_INPUTS.logitRows], { axis: 1, name: 'logit_rows_of' }),
  };
  return { lowering, present };
}

function ones(g: GraphBuilder, width: number): Value {
  return g.constant('float32', [width], new Float32Array(width).fill(1));
}

/** Rotates blocks of the rows, as the weights of `down` expect. */
function rotateBlocks(g: GraphBuilder, layer: LinearLayer, x: Value, matrix: Value, architecture: Architecture): Value {
  const block = downBlock(architecture);
  if (block === 1) return x;
  const blocks = g.node('Reshape', [x, g.int64([1, -1, block])], { name: `${layer.name}.blocks` });
  const rotated = g.node('MatMul', [blocks, matrix], { name: `${layer.name}.rotated` });
  const width = g.int64([1, -1, architecture.intermediateSize]);
  return g.node('Reshape', [rotated, width], { name: `${layer.name}.rotated_rows` });
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
