/**
 * From logits to what leaves the graph. Outputs are copied into new arrays, so of a row that is sampled greedily only the
 * likeliest token leaves, and whole rows leave only where they are wanted.
 */
import type { GraphBuilder, Value } from '../../graph/builder.js';

export const LOGIT_INPUTS = {
  /** i32 [W] which of the S rows are wanted whole. */
  wholeRows: 'whole_rows',
} as const;

export const LOGIT_OUTPUTS = {
  /** f32 [W, vocabulary] */
  values: 'logits',
  /** i64 [S, 1] */
  likeliest: 'likeliest',
  /** f32 [S, 1] the logit of the likeliest token; NaN where the row has anything that is not finite. */
  likeliestLogits: 'likeliest_logits',
} as const;

/** @param logits f32 [1, S, vocabulary] */
export function reduceLogits(g: GraphBuilder, logits: Value, vocabSize: number): void {
  g.input(LOGIT_INPUTS.wholeRows, 'int32', ['W']);
  g.scope('logits', () => {
    const rows = g.node('Reshape', [logits, g.int64([-1, vocabSize])], { name: 'rows' });
    g.nodes('Gather', [rows, LOGIT_INPUTS.wholeRows], [LOGIT_OUTPUTS.values], { axis: 0, name: 'whole' });

    // The largest of each chunk by a fast reduction, then the chunk it lies in, then its place there. Both searches
    // take the first among equals, so the lowest index wins.
    const last = g.int64([-1]);
    const chunk = chunkSize(vocabSize);
    const chunks = g.node('Reshape', [rows, g.int64([-1, vocabSize / chunk, chunk])], { name: 'chunks' });
    const largest = g.node('ReduceMax', [chunks, last], { keepdims: 0, name: 'chunk_largest' });
    const which = g.node('ArgMax', [largest], { axis: -1, keepdims: 1, name: 'largest_chunk' });
    const members = g.node('GatherND', [chunks, which], { batch_dims: 1, name: 'members' });
    const place = g.node('ArgMax', [members], { axis: -1, keepdims: 1, name: 'place' });
    const start = g.node('Mul', [which, g.int64([chunk])], { name: 'start' });
    g.nodes('Add', [start, place], [LOGIT_OUTPUTS.likeliest], { name: 'likeliest' });

    const maximum = g.node('ReduceMax', [largest, last], { keepdims: 1, name: 'maximum' });
    // A maximum may pass over NaN; a sum does not, and infinity times zero is NaN as well.
    const sum = g.node('ReduceSum', [rows, last], { keepdims: 1, name: 'sum' });
    const fault = g.node('Mul', [sum, g.float32Scalar(0)], { name: 'zero_or_nan' });
    g.nodes('Add', [maximum, fault], [LOGIT_OUTPUTS.likeliestLogits], { name: 'likeliest_logit' });
  });
  g.output(LOGIT_OUTPUTS.values, 'float32', ['W', vocabSize]);
  g.output(LOGIT_OUTPUTS.likeliest, 'int64', ['S', 1]);
  g.output(LOGIT_OUTPUTS.likeliestLogits, 'float32', ['S', 1]);
}

/** The divisor of the vocabulary's size that is nearest to its square root, where both searches are short. */
function chunkSize(vocabSize: number): number {
  for (let size = Math.floor(Math.sqrt(vocabSize)); size > 1; size--) if (vocabSize % size === 0) return size;
  return vocabSize;
}
