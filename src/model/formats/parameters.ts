/** Which parameters a decoder has, and their shapes. */
import type { Architecture, LayerParameter, ParameterName } from '../architecture.js';

/** Every parameter of the architecture with its shape, in the order a forward pass meets them. */
export function* parameterShapes(architecture: Architecture): Generator<[ParameterName, readonly number[]]> {
  const { vocabSize, hiddenSize } = architecture;
  yield ['embedding', [vocabSize, hiddenSize]];
  for (let layer = 0; layer < architecture.layers.length; layer++) {
    for (const [name, shape] of layerShapes(architecture)) yield [`layers.${layer}.${name}`, shape];
  }
  yield ['finalNorm', [hiddenSize]];
  if (!architecture.tiedHead) yield ['head', [vocabSize, hiddenSize]];
}

function* layerShapes(architecture: Architecture): Generator<[LayerParameter, readonly number[]]> {
  const { hiddenSize, intermediateSize, headSize } = architecture;
  const queryRows = architecture.numHeads * headSize;
  const keyRows = architecture.numKvHeads * headSize;
  yield ['attentionNorm', [hiddenSize]];
  yield ['q', [queryRows, hiddenSize]];
  yield ['k', [keyRows, hiddenSize]];
  yield ['v', [keyRows, hiddenSize]];
  if (architecture.qkvBias) {
    yield ['qBias', [queryRows]];
    yield ['kBias', [keyRows]];
    yield ['vBias', [keyRows]];
  }
  if (architecture.qkNorm) {
    yield ['qNorm', [headSize]];
    yield ['kNorm', [headSize]];
  }
  yield ['o', [hiddenSize, queryRows]];
  if (architecture.postNorms) yield ['postAttentionNorm', [hiddenSize]];
  yield ['ffnNorm', [hiddenSize]];
  yield ['gate', [intermediateSize, hiddenSize]];
  yield ['up', [intermediateSize, hiddenSize]];
  yield ['down', [hiddenSize, intermediateSize]];
  if (architecture.postNorms) yield ['postFfnNorm', [hiddenSize]];
}

/** Whether the parameter is a norm's weight. */
export function isNorm(name: ParameterName): boolean {
  return name === 'finalNorm' || name.endsWith('Norm');
}
