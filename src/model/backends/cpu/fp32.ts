/** The CPU lowering in fp32: the reference that every other lowering is measured against. */
import type { ParameterName } from '../../architecture.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import { decoderLinears, type LinearLayer, type Lowering } from '../../graph/decoder.js';
import type { WeightStore } from '../../graph/weight-store.js';
import { attentionBlock, type LoweringOptions, ROW_INPUTS, type RopeTables } from './rows.js';
import { bytesOf, concatenate, headNorms, storeRopes } from './weights.js';

/** Reads the checkpoint's parameters into the store, tensor by tensor, and returns the lowering that uses them. */
export async function fp32Lowering(
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

  const lowering: Lowering = {
    embed(g) {
      const rows = g.node('Gather', [weight('embedding'), ROW_INPUTS.tokens], { axis: 0, name: 'embedding_rows' });
      if (architecture.embeddingScale === 1) return rows;
      return g.node('Mul', [rows, g.float32Scalar(architecture.embeddingScale)], { name: 'embedding_scaled' });
    },
    linear(g, layer, input) {
      const product = g.node('FusedMatMul', [input, weight(layer.name)], {
        domain: 'com.microsoft',
        name: layer.name,
        transB: 1,
      });
      if (layer.biases.length === 0) return product;
      return g.node('Add', [product, weight(`${layer.name}.bias`)], { name: `${layer.name}.biased` });
    },
    attention(g, layer, qkv) {
      const rope = ropes[architecture.layers[layer]?.rope ?? 0] as RopeTables;
      const headNorm = architecture.qkNorm ? weight(`layers.${layer}.headNorm`) : undefined;
      const block = attentionBlock(g, architecture, layer, qkv, rope, headNorm, cacheType);
      present.push(block.present);
      return block.output;
    },
    normWeight: (_, name) => weight(name),
    logitRows: (g, rows) => g.node('Gather', [rows, ROW_INPUTS.logitRows], { axis: 1, name: 'logit_rows_of' }),
  };
  return { lowering, present };
}

async function storeParameters(
  g: GraphBuilder,
  checkpoint: Checkpoint,
  store: WeightStore,
  progress: (fraction: number) => void,
): Promise<Map<string, Value>> {
  const { architecture } = checkpoint;
  const weights = new Map<string, Value>();
  const put = async (name: string, shape: readonly number[], data: Float32Array) => {
    weights.set(name, g.weight(`${name}.weight`, 'float32', shape, await store.write(bytesOf(data))));
  };
  const vector = async (name: ParameterName) => {
    const data = await checkpoint.readFloat32(name);
    await put(name, [data.length], data);
  };
  const linear = async (layer: LinearLayer) => {
    const parts = await Promise.all(layer.parameters.map((name) => checkpoint.readFloat32(name)));
    const width = checkpoint.info(layer.parameters[0] as ParameterName)?.shape[1] as number;
    const packed = concatenate(parts);
    await put(layer.name, [packed.length / width, width], packed);
    if (layer.biases.length > 0) {
      const bias = concatenate(await Promise.all(layer.biases.map((name) => checkpoint.readFloat32(name))));
      await put(`${layer.name}.bias`, [bias.length], bias);
    }
  };

  const embedding = await checkpoint.readFloat32('embedding');
  await put('embedding', [architecture.vocabSize, architecture.hiddenSize], embedding);
  const { layers, head } = decoderLinears(architecture);
  for (const [n, layer] of layers.entries()) {
    await vector(`layers.${n}.attentionNorm`);
    await vector(`layers.${n}.ffnNorm`);
    if (architecture.postNorms) {
      await vector(`layers.${n}.postAttentionNorm`);
      await vector(`layers.${n}.postFfnNorm`);
    }
    if (architecture.qkNorm) {
      const data = headNorms(
        architecture,
        await checkpoint.readFloat32(`layers.${n}.qNorm`),
        await checkpoint.readFloat32(`layers.${n}.kNorm`),
      );
      await put(`layers.${n}.headNorm`, [architecture.numHeads + architecture.numKvHeads, architecture.headSize], data);
    }
    for (const name of ['qkv', 'o', 'gateUp', 'down'] as const) await linear(layer[name]);
    progress((n + 1) / layers.length);
  }
  await vector('finalNorm');
  if (architecture.tiedHead) weights.set('head', weights.get('embedding') as Value);
  else await linear(head);
  return weights;
}
