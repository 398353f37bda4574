/**
 * The CPU lowering in blocks (MatMulNBits): weights of 4 or 8 bits with a scale for each block of inputs, multiplied by
 * activations that the kernel itself quantizes to 8 bits in the same blocks. With few rows its products cost less than
 * per-row integer products, because there is less to read and no node around them; with many rows they cost more.
 */
import { LoadError } from '../../../errors.js';
import type { ParameterName } from '../../architecture.js';
import { fromFloat16 } from '../../float16.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import type { GraphBuilder } from '../../graph/builder.js';
import { decoderLinears, type LinearLayer } from '../../graph/decoder.js';
import type { WeightStore } from '../../graph/weight-store.js';
import { quantizeBlocks } from '../block-quantize.js';
import { quantizeAsymmetric } from './asymmetric.js';
import { type CpuLowering, cpuLowering } from './lowering.js';
import type { LoweringOptions } from './rows.js';
import { inputWidth, readPacked, WeightWriter } from './weights.js';

/** Of the kernel: how activations take part. */
const FP32_ACTIVATIONS = 1;
const INT8_ACTIVATIONS = 4;

/** Narrower models average over too few inputs for coarse rounding, and their products cost nothing anyway. */
const NARROW = 256;

export async function blockLowering(
  bits: 4 | 8,
  g: GraphBuilder,
  checkpoint: Checkpoint,
  store: WeightStore,
  { positions, pages }: LoweringOptions,
  progress: (fraction: number) => void,
): Promise<CpuLowering> {
  const { architecture } = checkpoint;
  const narrow = architecture.hiddenSize < NARROW;
  /** Inputs that share a scale. */
  const block = narrow ? 16 : 32;
  const weights = new WeightWriter(g, store);
  const shapes = new Map<string, { inputs: number; outputs: number; bits: 4 | 8 }>();
  const read = (name: ParameterName) => checkpoint.readFloat32(name);
  const linear = async (layer: LinearLayer, layerBits: 4 | 8) => {
    const inputs = inputWidth(checkpoint, layer.parameters[0] as ParameterName);
    const matrix = await readPacked(layer.parameters, read);
    const outputs = matrix.length / inputs;
    if (inputs % block !== 0) {
      throw new LoadError(
        checkpoint.path,
        `${layer.name} has ${inputs} inputs, which are not blocks of ${block}; use --precision fp32.`,
      );
    }
    const blocks = inputs / block;
    const shape = [outputs, blocks, (block * layerBits) / 8];
    if (layerBits === 4) {
      const { quants, scales, zeroPoints } = quantizeAsymmetric(matrix, inputs, block);
      await weights.put(layer.name, 'uint8', shape, quants);
      await weights.floats(`${layer.name}.scale`, [outputs * blocks], scales);
      await weights.put(`${layer.name}.zeroPoint`, 'uint8', [zeroPoints.length], zeroPoints);
    } else {
      const { quants, scales } = quantizeBlocks(matrix, layerBits, block);
      await weights.put(layer.name, 'uint8', shape, quants);
      await weights.floats(`${layer.name}.scale`, [outputs * blocks], fromFloat16(scales));
    }
    shapes.set(layer.name, { inputs, outputs, bits: layerBits });
    if (layer.biases.length === 0) return;
    const bias = await readPacked(layer.biases, read);
    await weights.floats(`${layer.name}.bias`, [bias.length], bias);
  };

  await weights.floats('embedding', [architecture.vocabSize, architecture.hiddenSize], await read('embedding'));
  await weights.norms(checkpoint, false);
  const { layers, head } = decoderLinears(architecture);
  for (const [n, layer] of layers.entries()) {
    for (const name of ['qkv', 'o', 'gateUp', 'down'] as const) await linear(layer[name], bits);
    progress((n + 1) / (layers.length + 1));
  }
  // The head keeps 8 bits where the other layers have 4: it is where the loss shows most.
  await linear(head, 8);
  progress(1);

  return cpuLowering(architecture, weights, await weights.ropes(architecture, positions), pages, {
    linear(g, layer, input) {
      const shape = shapes.get(layer.name);
      if (shape === undefined) throw new Error(`no weights of ${layer.name}`);
      const zero = shape.bits === 4 ? weights.value(`${layer.name}.zeroPoint`) : '';
      const bias = layer.biases.length > 0 ? weights.value(`${layer.name}.bias`) : '';
      return g.node(
        'MatMulNBits',
        [input, weights.value(layer.name), weights.value(`${layer.name}.scale`), zero, '', bias],
        {
          domain: 'com.microsoft',
          name: layer.name,
          K: shape.inputs,
          N: shape.outputs,
          bits: shape.bits,
          block_size: block,
          accuracy_level: narrow ? FP32_ACTIVATIONS : INT8_ACTIVATIONS,
        },
      );
    },
    normWeight: (_, name) => weights.value(name),
  });
}
