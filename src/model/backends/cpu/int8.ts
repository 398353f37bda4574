/**
 * The CPU lowering in 8 bits (W8A8): int8 weights with a scale per output, int8 activations with a scale per row, or one for
 * all behind norms, integer products. Weights are rotated first (`rotation.ts`), which takes the outliers out of the activations. A row's result
 * does not depend on the other rows of the step.
 */
import type { Architecture, ParameterName } from '../../architecture.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import { decoderLinears, type LinearLayer } from '../../graph/decoder.js';
import type { WeightStore } from '../../graph/weight-store.js';
import { applyHadamardToRows } from './hadamard.js';
import { type CpuLowering, cpuLowering } from './lowering.js';
import { quantizeColumns } from './quantize.js';
import { downBlock, RotatedParameters } from './rotation.js';
import type { LoweringOptions } from './rows.js';
import { inputWidth, readPacked, WeightWriter } from './weights.js';

/**
 * What the 8 bits of a norm's output span, in root mean squares. Without the norm's weights the root mean square of a row is 1,
 * and rotated it is nearly normal, so one range for all rows loses little more than each row's largest magnitude, and takes
 * fewer passes. Between clipping its tails and coarse steps for the rest this range lost least with the bundled model.
 */
const FIXED_RANGE = 3.7;

const MICROSOFT = 'com.microsoft';

export async function int8Lowering(
  g: GraphBuilder,
  checkpoint: Checkpoint,
  store: WeightStore,
  { positions, pages }: LoweringOptions,
  progress: (fraction: number) => void,
): Promise<CpuLowering> {
  const { architecture } = checkpoint;
  const weights = new WeightWriter(g, store);
  await storeParameters(weights, checkpoint, progress);
  const ropes = await weights.ropes(architecture, positions);
  const weight = (name: string) => weights.value(name);
  const zeroPoint = g.constant('uint8', [], Uint8Array.of(128));
  const product = (g: GraphBuilder, name: string, input: { rows: Value; scale: Value }, bias: Value): Value =>
    g.node(
      'MatMulIntegerToFloat',
      [input.rows, weight(name), input.scale, weight(`${name}.scale`), zeroPoint, '', bias],
      { domain: MICROSOFT, name },
    );
  const byFixedRange = (g: GraphBuilder, layer: LinearLayer, x: Value): { rows: Value; scale: Value } => {
    const scale = g.float32Scalar(FIXED_RANGE / 127);
    return { rows: g.node('QuantizeLinear', [x, scale, zeroPoint], { name: `${layer.name}.rows` }), scale };
  };
  /** The product of rows quantized by their own largest magnitude, and the scale [1, rows, 1] it is still to take. */
  const byLargest = (g: GraphBuilder, layer: LinearLayer, x: Value): { unscaled: Value; scale: Value } => {
    const name = (part: string) => `${layer.name}.${part}`;
    // In a row of zeros the range is zero: whatever the integers are then, they are multiplied by it in the end. Dividing
    // first is faster than a scale for each row, whose quantization takes one thread (`node bench/run.mjs kernels`).
    const magnitudes = g.node('Abs', [x], { name: name('abs') });
    const range = g.node('ReduceMax', [magnitudes, g.int64([-1])], { name: name('range'), keepdims: 1 });
    const unit = g.node('Div', [x, range], { name: name('unit') });
    const scale = g.float32Scalar(1 / 127);
    const rows = g.node('QuantizeLinear', [unit, scale, zeroPoint], { name: name('rows') });
    return { unscaled: product(g, layer.name, { rows, scale }, ''), scale: range };
  };

  return cpuLowering(architecture, weights, ropes, pages, {
    // By largest magnitude, though it is behind a norm: what the head loses shows at once.
    head: (g, layer, input) => {
      const { unscaled, scale } = byLargest(g, layer, input);
      return { logits: unscaled, scale };
    },
    linear(g, layer, input) {
      if (layer.input === 'norm') {
        const bias = layer.biases.length > 0 ? weight(`${layer.name}.bias`) : '';
        return product(g, layer.name, byFixedRange(g, layer, input), bias);
      }
      if (layer.biases.length > 0) throw new Error(`${layer.name}: only products behind norms have biases`);
      const x = layer.input === 'activation' ? rotateBlocks(g, layer, input, weight('hadamard'), architecture) : input;
      const { unscaled, scale } = byLargest(g, layer, x);
      return g.node('Mul', [unscaled, scale], { name: `${layer.name}.scaled` });
    },
    gateUp(g, layer, input) {
      // Two products of the same rows: what would split a packed one copies all of it.
      const rows = byFixedRange(g, layer, input);
      const [gate, up] = layer.parameters as [ParameterName, ParameterName];
      return [product(g, gate, rows, ''), product(g, up, rows, '')];
    },
    normWeight: (g) => ones(g, architecture.hiddenSize),
  });
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
  weights: WeightWriter,
  checkpoint: Checkpoint,
  progress: (fraction: number) => void,
): Promise<void> {
  const { architecture } = checkpoint;
  const parameters = new RotatedParameters(checkpoint);
  const read = (name: ParameterName) => parameters.read(name);
  const putMatrix = async (name: string, matrix: Float32Array, width: number) => {
    const outputs = matrix.length / width;
    const { values, scales } = quantizeColumns(matrix, outputs, width);
    await weights.put(name, 'int8', [width, outputs], values);
    await weights.floats(`${name}.scale`, [outputs], scales);
  };
  const pack = async (name: string, names: readonly ParameterName[]) => {
    await putMatrix(name, await readPacked(names, read), inputWidth(checkpoint, names[0] as ParameterName));
  };
  const linear = async (layer: LinearLayer) => {
    await pack(layer.name, layer.parameters);
    if (layer.biases.length === 0) return;
    const bias = await readPacked(layer.biases, read);
    await weights.floats(`${layer.name}.bias`, [bias.length], bias);
  };

  await weights.floats('embedding', [architecture.vocabSize, architecture.hiddenSize], await read('embedding'));
  await weights.norms(checkpoint, true, (layer) => parameters.balance(layer));
  const block = downBlock(architecture);
  const hadamard = new Float32Array(block * block);
  for (let i = 0; i < block; i++) hadamard[i * block + i] = 1;
  applyHadamardToRows(hadamard, block, block);
  await weights.floats('hadamard', [block, block], hadamard);

  const { layers, head } = decoderLinears(architecture);
  for (const [n, layer] of layers.entries()) {
    for (const name of ['qkv', 'o', 'down'] as const) await linear(layer[name]);
    for (const name of layer.gateUp.parameters) await pack(name, [name]);
    progress((n + 1) / (layers.length + 1));
  }
  if (architecture.tiedHead) await putMatrix('head', await parameters.readTiedHead(), architecture.hiddenSize);
  else await linear(head);
  progress(1);
}
