/**
 * From logits to what leaves the graph. Outputs are copied into new arrays, so of a row that is sampled greedily only the
 * likeliest token leaves, and whole rows leave only where they are wanted.
 */
import type { GraphBuilder, Value } from '../../graph/builder.js';

export const LOGIT_INPUTS = {
  /** i32 [W] which of the S rows are wanted whole. */
  wholeRows: 'whole_rows',
  /** f32 [W, 1] one over the temperature of each. */
  inverseTemperatures: 'inverse_temperatures',
} as const;

export const LOGIT_OUTPUTS = {
  /** f32 [W, vocabulary] */
  values: 'logits',
  /** f32 [W, chunks] largest logit of each chunk of a whole row, and its share of the probability. */
  maxima: 'chunk_maxima',
  masses: 'chunk_masses',
  /** i64 [S, 1] */
  likeliest: 'likeliest',
  /** f32 [S, 1] the logit of the likeliest token; NaN where the row has anything that is not finite. */
  likeliestLogits: 'likeliest_logits',
} as const;

/**
 * @param logits f32 [1, S, vocabulary]
 * @param scale f32 [1, S, 1], positive: what the rows are still to be multiplied by. It changes no order, so only what
 * leaves the graph is multiplied.
 */
export function reduceLogits(g: GraphBuilder, logits: Value, vocabSize: number, scale?: Value): void {
  g.input(LOGIT_INPUTS.wholeRows, 'int32', ['W']);
  g.input(LOGIT_INPUTS.inverseTemperatures, 'float32', ['W', 1]);
  const chunk = chunkSize(vocabSize);
  g.scope('logits', () => {
    const rows = g.node('Reshape', [logits, g.int64([-1, vocabSize])], { name: 'rows' });
    const rowScale = scale && g.node('Reshape', [scale, g.int64([-1, 1])], { name: 'row_scale' });
    /** Those of the rows that are wanted whole, in their scale. */
    const whole = (x: Value, output: Value, name: string) => {
      if (rowScale === undefined) return g.nodes('Gather', [x, LOGIT_INPUTS.wholeRows], [output], { axis: 0, name });
      const pick = (from: Value, what: string) =>
        g.node('Gather', [from, LOGIT_INPUTS.wholeRows], { axis: 0, name: `${name}_${what}` });
      return g.nodes('Mul', [pick(x, 'rows'), pick(rowScale, 'scales')], [output], { name });
    };
    whole(rows, LOGIT_OUTPUTS.values, 'whole');

    // The largest of each chunk by a fast reduction, then the chunk it lies in, then its place there. Both searches
    // take the first among equals, so the lowest index wins.
    const last = g.int64([-1]);
    const chunks = g.node('Reshape', [rows, g.int64([-1, vocabSize / chunk, chunk])], { name: 'chunks' });
    const largest = g.node('ReduceMax', [chunks, last], { keepdims: 0, name: 'chunk_largest' });
    const which = g.node('ArgMax', [largest], { axis: -1, keepdims: 1, name: 'largest_chunk' });
    const members = g.node('GatherND', [chunks, which], { batch_dims: 1, name: 'members' });
    const place = g.node('ArgMax', [members], { axis: -1, keepdims: 1, name: 'place' });
    const start = g.node('Mul', [which, g.int64([chunk])], { name: 'start' });
    g.nodes('Add', [start, place], [LOGIT_OUTPUTS.likeliest], { name: 'likeliest' });

    // The same chunks of the whole rows, for draws that then read one chunk or a few.
    const cooled = g.node('Mul', [LOGIT_OUTPUTS.values, LOGIT_INPUTS.inverseTemperatures], { name: 'cooled' });
    const probabilities = g.node('Softmax', [cooled], { axis: -1, name: 'probabilities' });
    const shares = g.node('Reshape', [probabilities, g.int64([-1, vocabSize / chunk, chunk])], { name: 'shares' });
    g.nodes('ReduceSum', [shares, last], [LOGIT_OUTPUTS.masses], { keepdims: 0, name: 'masses' });
    whole(largest, LOGIT_OUTPUTS.maxima, 'maxima');

    const maximum = g.node('ReduceMax', [largest, last], { keepdims: 1, name: 'maximum' });
    // A maximum may pass over NaN; a sum does not, and infinity times zero is NaN as well.
    const sum = g.node('ReduceSum', [rows, last], { keepdims: 1, name: 'sum' });
    const fault = g.node('Mul', [sum, g.float32Scalar(0)], { name: 'zero_or_nan' });
    if (rowScale === undefined) {
      g.nodes('Add', [maximum, fault], [LOGIT_OUTPUTS.likeliestLogits], { name: 'likeliest_logit' });
    } else {
      const unscaled = g.node('Add', [maximum, fault], { name: 'unscaled_likeliest_logit' });
      g.nodes('Mul', [unscaled, rowScale], [LOGIT_OUTPUTS.likeliestLogits], { name: 'likeliest_logit' });
    }
  });
  g.output(LOGIT_OUTPUTS.values, 'float32', ['W', vocabSize]);
  g.output(LOGIT_OUTPUTS.maxima, 'float32', ['W', vocabSize / chunk]);
  g.output(LOGIT_OUTPUTS.masses, 'float32', ['W', vocabSize / chunk]);
  g.output(LOGIT_OUTPUTS.likeliest, 'int64', ['S', 1]);
  g.output(LOGIT_OUTPUTS.likeliestLogits, 'float32', ['S', 1]);
}

/** The divisor of the vocabulary's size that is nearest to its square root, where both searches are short. */
export function chunkSize(vocabSize: number): number {
  for (let size = Math.floor(Math.sqrt(vocabSize)); size > 1; size--) if (vocabSize % size === 0) return size;
  return vocabSize;
}
