/** The whole graph of the WebGPU backend: inputs and outputs around the decoder. */
import type { Precision } from '../../../engine/protocol.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import type { GraphBuilder } from '../../graph/builder.js';
import { buildDecoder } from '../../graph/decoder.js';
import type { WeightStore } from '../../graph/weight-store.js';
import { addAllLogits, addReducedLogits } from './logits.js';
import { type LoweringOptions, webgpuLowering } from './lowering.js';
import { cacheNames, INPUTS } from './names.js';
import { storeWeights } from './weights.js';
import { declareWindowInputs } from './windows.js';

/** Without `logitRows` a graph has the inputs of an onnxruntime-genai export. */
export interface WebGpuGraphOptions extends LoweringOptions {
  readonly precision: WebGpuPrecision;
}

export type WebGpuPrecision = Exclude<Precision, 'fp32'>;

export async function buildWebGpuGraph(
  g: GraphBuilder,
  store: WeightStore,
  checkpoint: Checkpoint,
  options: WebGpuGraphOptions,
  progress: (fraction: number) => void = () => {},
): Promise<void> {
  const { architecture } = checkpoint;
  const cacheShape = ['num_blocks', 'block_size', architecture.numKvHeads, architecture.headSize];
  g.input(INPUTS.tokens, 'int64', ['num_tokens']);
  g.input(INPUTS.blockTable, 'int32', ['batch_size', 'max_num_blocks']);
  g.input(INPUTS.cumulativeLengths, 'int32', ['batch_size_plus_one']);
  g.input(INPUTS.pastLengths, 'int32', ['batch_size']);
  g.input(INPUTS.metadata, 'int32', [3]);
  architecture.layers.forEach((_, layer) => {
    for (const name of cacheNames(layer).past) g.input(name, 'float16', cacheShape);
  });
  if (options.logitRows) g.input(INPUTS.logitRows, 'int32', ['num_logits']);
  if (options.windows === 'repacked') declareWindowInputs(g, architecture);

  const weights = await storeWeights(g, checkpoint, store, options.precision, progress);
  const logits = buildDecoder(g, architecture, webgpuLowering(architecture, weights, options));
  if (options.logitRows) addReducedLogits(g, logits, architecture.vocabSize);
  else addAllLogits(g, logits, architecture.vocabSize);
  architecture.layers.forEach((_, layer) => {
    for (const name of cacheNames(layer).present) g.output(name, 'float16', cacheShape);
  });
}
