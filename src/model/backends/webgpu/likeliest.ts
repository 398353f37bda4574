/**
 * The likeliest token of a row, found on the device, so that rows that are sampled greedily need not leave it. In two
 * steps, since an ArgMax runs through its axis in one thread: the chunk of the vocabulary that the largest logit lies in,
 * then its place there. Both take the first among equals, so the lowest token wins.
 */
import type { Tensor } from 'onnxruntime-node';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import type { Likeliest } from '../../runner.js';
import { OUTPUTS } from './names.js';

const FLOAT32 = 1;

/** The divisor of the vocabulary's size that is nearest to its square root, where both searches are short. */
function chunkSize(vocabSize: number): number {
  for (let size = Math.floor(Math.sqrt(vocabSize)); size > 1; size--) if (vocabSize % size === 0) return size;
  return vocabSize;
}

/** @param logits fp16 [S, vocabulary] */
export function addLikeliest(g: GraphBuilder, logits: Value, vocabSize: number): void {
  const size = chunkSize(vocabSize);
  const last = g.int64([-1]);
  const chunks = g.node('Reshape', [logits, g.int64([-1, vocabSize / size, size])], { name: 'logit_chunks' });
  const largest = g.node('ReduceMax', [chunks, last], { keepdims: 0, name: 'chunk_largest' });
  g.nodes('ArgMax', [largest], [OUTPUTS.likeliestChunk], { axis: -1, keepdims: 1, name: 'largest_chunk' });
  const members = g.node('GatherND', [chunks, OUTPUTS.likeliestChunk], { batch_dims: 1, name: 'chunk_members' });
  g.nodes('ArgMax', [members], [OUTPUTS.likeliestPlace], { axis: -1, keepdims: 1, name: 'place_in_chunk' });

  const maximum = g.node('ReduceMax', [largest, last], { keepdims: 1, name: 'largest_logit' });
  // A maximum may pass over NaN; a sum does not, and 0 times anything that is not finite is NaN.
  const zeros = g.node('Mul', [logits, g.float16Scalar(0)], { name: 'logit_faults' });
  const fault = g.node('ReduceSum', [zeros, last], { keepdims: 1, name: 'logit_fault' });
  const checked = g.node('Add', [maximum, fault], { name: 'largest_logit_checked' });
  g.nodes('Cast', [checked], [OUTPUTS.likeliestLogits], { to: FLOAT32, name: 'largest_logit_f32' });

  g.output(OUTPUTS.likeliestChunk, 'int64', ['num_logits', 1]);
  g.output(OUTPUTS.likeliestPlace, 'int64', ['num_logits', 1]);
  g.output(OUTPUTS.likeliestLogits, 'float32', ['num_logits', 1]);
}

/** What the graph's outputs mean. The provider has no arithmetic on i64, so chunk and place come apart. */
export function readLikeliest(outputs: Readonly<Record<string, Tensor>>, vocabSize: number): Likeliest {
  const size = chunkSize(vocabSize);
  const chunks = outputs[OUTPUTS.likeliestChunk]!.data as BigInt64Array;
  const places = outputs[OUTPUTS.likeliestPlace]!.data as BigInt64Array;
  return {
    tokens: Int32Array.from(chunks, (chunk, row) => Number(chunk) * size + Number(places[row])),
    logits: outputs[OUTPUTS.likeliestLogits]!.data as Float32Array,
  };
}
