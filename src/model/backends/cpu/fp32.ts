/** The CPU lowering in fp32: the reference that every other lowering is measured against. */
import type { ParameterName } from '../../architecture.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import type { GraphBuilder } from '../../graph/builder.js';
import { decoderLinears, type LinearLayer } from '../../graph/decoder.js';
import type { WeightStore } from '../../graph/weight-store.js';
import { type CpuLowering, cpuLowering } from './lowering.js';
import type { LoweringOptions } from './rows.js';
import { inputWidth, readPacked, WeightWriter } from './weights.js';

/** Reads the checkpoint's parameters into the store, tensor by tensor, and returns the lowering that uses them. */
export async function fp32Lowering(
  g: GraphBuilder,
  checkpoint: Checkpoint,
  store: WeightStore,
  { positions, pages }: LoweringOptions,
  progress: (fraction: number) => void,
): Promise<CpuLowering> {
  const { architecture } = checkpoint;
  const weights = new WeightWriter(g, store);
  const read = (name: ParameterName) => checkpoint.readFloat32(name);
  const linear = async (layer: LinearLayer) => {
    const width = inputWidth(checkpoint, layer.parameters[0] as ParameterName);
    const matrix = await readPacked(layer.parameters, read);
    await weights.floats(layer.name, [matrix.length / width, width], matrix);
    if (layer.biases.length === 0) return;
    const bias = await readPacked(layer.biases, read);
    await weights.floats(`${layer.name}.bias`, [bias.length], bias);
  };

  await weights.floats('embedding', [architecture.vocabSize, architecture.hiddenSize], await read('embedding'));
  await weights.norms(checkpoint, false);
  const { layers, head } = decoderLinears(architecture);
  for (const [n, layer] of layers.entries()) {
    for (const name of ['qkv', 'o', 'gateUp', 'down'] as const) await linear(layer[name]);
    progress((n + 1) / layers.length);
  }
  if (architecture.tiedHead) weights.alias('head', 'embedding');
  else await linear(head);

  return cpuLowering(architecture, weights, await weights.ropes(architecture, positions), pages, {
    linear(g, layer, input) {
      const product = g.node('FusedMatMul', [input, weights.value(layer.name)], {
        domain: 'com.microsoft',
        name: layer.name,
        transB: 1,
      });
      if (layer.biases.length === 0) return product;
      return g.node('Add', [product, weights.value(`${layer.name}.bias`)], { name: `${layer.name}.biased` });
    },
    normWeight: (_, name) => weights.value(name),
  });
}
