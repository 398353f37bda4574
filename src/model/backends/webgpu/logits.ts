/**
 * From logits to what leaves the device. Of a row that is sampled greedily only the likeliest token leaves it; a row that
 * is wanted whole comes with sums of its probability, so that a draw from it reads one part of it.
 */
import type { Tensor } from 'onnxruntime-node';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import type { Likeliest, RowSummaries } from '../../runner.js';
import { INPUTS, OUTPUTS } from './names.js';

const FLOAT32 = 1;

/** The divisor of the vocabulary's size that is nearest to its square root, where searches are short. */
function chunkSize(vocabSize: number): number {
  for (let size = Math.floor(Math.sqrt(vocabSize)); size > 1; size--) if (vocabSize % size === 0) return size;
  return vocabSize;
}

/** Logits of all rows, as exports give them. */
export function addAllLogits(g: GraphBuilder, logits: Value, vocabSize: number): void {
  g.nodes('Cast', [logits], [OUTPUTS.logits], { to: FLOAT32, name: 'logits_f32' });
  g.output(OUTPUTS.logits, 'float32', ['num_tokens', vocabSize]);
}

/** @param logits fp16 [S, vocabulary] */
export function addReducedLogits(g: GraphBuilder, logits: Value, vocabSize: number): void {
  g.input(INPUTS.wholeRows, 'int32', ['num_whole']);
  g.input(INPUTS.inverseTemperatures, 'float32', ['num_whole', 1]);
  const size = chunkSize(vocabSize);
  const chunkCount = vocabSize / size;
  const last = g.int64([-1]);
  const toFloat32 = (x: Value, name: Value) => g.nodes('Cast', [x], [name], { to: FLOAT32, name: `${name}_f32` });

  // An ArgMax runs through its axis in one thread: first the chunk that the largest logit lies in, then its place there.
  // Both take the first among equals, so the lowest token wins.
  const chunks = g.node('Reshape', [logits, g.int64([-1, chunkCount, size])], { name: 'logit_chunks' });
  const largest = g.node('ReduceMax', [chunks, last], { keepdims: 0, name: 'chunk_largest' });
  g.nodes('ArgMax', [largest], [OUTPUTS.likeliestChunk], { axis: -1, keepdims: 1, name: 'largest_chunk' });
  const members = g.node('GatherND', [chunks, OUTPUTS.likeliestChunk], { batch_dims: 1, name: 'chunk_members' });
  g.nodes('ArgMax', [members], [OUTPUTS.likeliestPlace], { axis: -1, keepdims: 1, name: 'place_in_chunk' });

  const maximum = g.node('ReduceMax', [largest, last], { keepdims: 1, name: 'largest_logit' });
  // A maximum may pass over NaN; a sum does not, and 0 times anything that is not finite is NaN.
  const zeros = g.node('Mul', [logits, g.float16Scalar(0)], { name: 'logit_faults' });
  const fault = g.node('ReduceSum', [zeros, last], { keepdims: 1, name: 'logit_fault' });
  toFloat32(g.node('Add', [maximum, fault], { name: 'largest_logit_checked' }), OUTPUTS.likeliestLogits);

  const wholeOf = (x: Value, name: string) => g.node('Gather', [x, INPUTS.wholeRows], { axis: 0, name });
  toFloat32(wholeOf(logits, 'whole_logits'), OUTPUTS.logits);
  toFloat32(wholeOf(largest, 'whole_largest'), OUTPUTS.chunkMaxima);
  const cooled = g.node('Mul', [OUTPUTS.logits, INPUTS.inverseTemperatures], { name: 'cooled' });
  const probabilities = g.node('Softmax', [cooled], { axis: -1, name: 'probabilities' });
  const shares = g.node('Reshape', [probabilities, g.int64([-1, chunkCount, size])], { name: 'probability_chunks' });
  g.nodes('ReduceSum', [shares, last], [OUTPUTS.chunkMasses], { keepdims: 0, name: 'chunk_masses' });

  g.output(OUTPUTS.logits, 'float32', ['num_whole', vocabSize]);
  g.output(OUTPUTS.chunkMaxima, 'float32', ['num_whole', chunkCount]);
  g.output(OUTPUTS.chunkMasses, 'float32', ['num_whole', chunkCount]);
  g.output(OUTPUTS.likeliestChunk, 'int64', ['num_logits', 1]);
  g.output(OUTPUTS.likeliestPlace, 'int64', ['num_logits', 1]);
  g.output(OUTPUTS.likeliestLogits, 'float32', ['num_logits', 1]);
}

type Outputs = Readonly<Record<string, Tensor>>;

/** The provider has no arithmetic on i64, so chunk and place come apart. */
export function readLikeliest(outputs: Outputs, vocabSize: number): Likeliest {
  const size = chunkSize(vocabSize);
  const chunks = outputs[OUTPUTS.likeliestChunk]!.data as BigInt64Array;
  const places = outputs[OUTPUTS.likeliestPlace]!.data as BigInt64Array;
  return {
    tokens: Int32Array.from(chunks, (chunk, row) => Number(chunk) * size + Number(places[row])),
    logits: outputs[OUTPUTS.likeliestLogits]!.data as Float32Array,
  };
}

export function readSummaries(outputs: Outputs, vocabSize: number): RowSummaries {
  return {
    chunkSize: chunkSize(vocabSize),
    chunks: vocabSize / chunkSize(vocabSize),
    maxima: outputs[OUTPUTS.chunkMaxima]!.data as Float32Array,
    masses: outputs[OUTPUTS.chunkMasses]!.data as Float32Array,
  };
}
