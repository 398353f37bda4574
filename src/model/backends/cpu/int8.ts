/**
 * The CPU lowering in 8 bits (W8A8): int8 weights with a scale per output, int8 activations with a scale per row, integer
 * products. Weights are rotated first (`rotation.ts`), which takes the outliers out of the activations. A row's result
 * does not depend on the other rows of the step.
 */
import type { Architecture, ParameterName } from '../../architecture.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import { Float, type GraphBuilder, type Value } from '../../graph/builder.js';
import { decoderLinears, type LinearLayer } from '../../graph/decoder.js';
import type { WeightStore } from '../../graph/weight-store.js';
import { applyHadamardToRows } from './hadamard.js';
import { type CpuLowering, cpuLowering } from './lowering.js';
import { quantizeColumns } from './quantize.js';
import { downBlock, RotatedParameters } from './rotation.js';
import type { LoweringOptions } from './rows.js';
import { inputWidth, readPacked, WeightWriter } from './weights.js';

/**
 * What a row's 8 bits span. `largest`: its largest magnitude, the most accurate and the most nodes. `rootMeanSquare`: a
 * multiple of its root mean square. `fixed`: a multiple of 1, which is the root mean square behind a norm without weights.
 * Chosen by KL divergence to fp32: keys and queries, the head and `down` gain from the first, the others hardly.
 */
type Range = 'largest' | 'rootMeanSquare' | 'fixed';

function rangeOf(layer: LinearLayer): Range {
  if (layer.input === 'activation' || layer.name === 'head' || layer.name.endsWith('.qkv')) return 'largest';
  return layer.input === 'attention' ? 'rootMeanSquare' : 'fixed';
}

/** Of a nearly normal row four deviations lose least; rows of attention have heavier tails. */
const NORM_RANGE = 4;
const ATTENTION_RANGE = 8;

const MICROSOFT = 'com.microsoft';

export async function int8Lowering(
  g: GraphBuilder,
  checkpoint: Checkpoint,
  store: WeightStore,
  { positions, cacheType }: LoweringOptions,
  progress: (fraction: number) => void,
): Promise<CpuLowering> {
  const { architecture } = checkpoint;
  const weights = new WeightWriter(g, store);
  await storeParameters(weights, checkpoint, progress);
  const ropes = await weights.ropes(architecture, positions);
  const weight = (name: string) => weights.value(name);
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

  return cpuLowering(architecture, weights, ropes, cacheType, {
    linear(g, layer, input) {
      const name = (part: string) => `${layer.name}.${part}`;
      const quantize = (x: Value, range: number) => {
        const scale = g.float32Scalar(range / 127);
        return { rows: g.node('QuantizeLinear', [x, scale, zeroPoint], { name: name('rows') }), scale };
      };
      const x = layer.input === 'activation' ? rotateBlocks(g, layer, input, weight('hadamard'), architecture) : input;
      switch (rangeOf(layer)) {
        case 'fixed':
          return product(g, layer, quantize(x, NORM_RANGE), weightOrNone(layer));
        case 'largest': {
          // In a row of zeros the range is zero: whatever the integers are then, they are multiplied by it in the end.
          const magnitudes = g.node('Abs', [x], { name: name('abs') });
          const range = g.node('ReduceMax', [magnitudes, g.int64([-1])], { name: name('range'), keepdims: 1 });
          const quantized = quantize(g.node('Div', [x, range], { name: name('unit') }), 1);
          return biased(g, layer, g.node('Mul', [product(g, layer, quantized, ''), range], { name: name('scaled') }));
        }
        case 'rootMeanSquare': {
          // Brought to root mean square 1 by the kernel of the norms, and back.
          const width = architecture.numHeads * architecture.headSize;
          const [unit, inverse] = g.nodes('SimplifiedLayerNormalization', [x, ones(g, width)], 2, {
            name: name('unit'),
            axis: -1,
            epsilon: new Float(1e-12),
          }) as [Value, Value];
          const quantized = quantize(unit, ATTENTION_RANGE);
          return biased(g, layer, g.node('Div', [product(g, layer, quantized, ''), inverse], { name: name('scaled') }));
        }
      }
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
  const linear = async (layer: LinearLayer) => {
    const width = inputWidth(checkpoint, layer.parameters[0] as ParameterName);
    await putMatrix(layer.name, await readPacked(layer.parameters, read), width);
    if (layer.biases.length === 0) return;
    const bias = await readPacked(layer.biases, read);
    await weights.floats(`${layer.name}.bias`, [bias.length], bias);
  };

  await weights.floats('embedding', [architecture.vocabSize, architecture.hiddenSize], await read('embedding'));
  await weights.norms(checkpoint, true);
  const block = downBlock(architecture);
  const hadamard = new Float32Array(block * block);
  for (let i = 0; i < block; i++) hadamard[i * block + i] = 1;
  applyHadamardToRows(hadamard, block, block);
  await weights.floats('hadamard', [block, block], hadamard);

  const { layers, head } = decoderLinears(architecture);
  for (const [n, layer] of layers.entries()) {
    for (const name of ['qkv', 'o', 'gateUp', 'down'] as const) await linear(layer[name]);
    progress((n + 1) / (layers.length + 1));
  }
  if (architecture.tiedHead) await putMatrix('head', await parameters.readTiedHead(), architecture.hiddenSize);
  else await linear(head);
  progress(1);
}
