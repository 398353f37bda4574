/**
 * Names of the WebGPU graph's inputs and outputs: those of onnxruntime-genai's exports with paged attention, in their
 * order, so that one runner serves both. T rows, B sequences, S rows whose logits are wanted.
 */
export const INPUTS = {
  /** i64 [T] */
  tokens: 'input_ids',
  /** i32 [B, max blocks] */
  blockTable: 'block_table',
  /** i32 [B + 1] */
  cumulativeLengths: 'cumulative_sequence_lengths',
  /** i32 [B] */
  pastLengths: 'past_sequence_lengths',
  /** i32 [3] on the CPU: longest query, longest and shortest sequence of the step. */
  metadata: 'attention_metadata',
  /** i32 [S]; not in exports, which give the logits of all rows, or of the last row of each sequence. */
  logitRows: 'logit_rows',
  /** i32 [W] those among the S that are wanted whole; not in exports either. */
  wholeRows: 'whole_rows',
  /** f32 [W, 1] one over the temperature of each of them; not in exports. */
  inverseTemperatures: 'inverse_temperatures',
} as const;

export const OUTPUTS = {
  /** f32 [W, vocabulary]; in exports of all T rows, or of the last row of each sequence. */
  logits: 'logits',
  /** f32 [W, chunks] each, see `RowSummaries`; not in exports. */
  chunkMaxima: 'chunk_maxima',
  chunkMasses: 'chunk_masses',
  /** i64 [S, 1] each: the chunk of the likeliest token and its place there; not in exports. */
  likeliestChunk: 'likeliest_chunk',
  likeliestPlace: 'likeliest_place',
  /** f32 [S, 1] the likeliest token's logit, NaN where the row has anything that is not finite; not in exports. */
  likeliestLogits: 'likeliest_logits',
} as const;

/** fp16 [blocks, block size, KV heads, head size] each; a present tensor is the same memory as its past. */
export function cacheNames(layer: number) {
  return {
    past: [`past_key_values.${layer}.key`, `past_key_values.${layer}.value`],
    present: [`present.${layer}.key`, `present.${layer}.value`],
  } as const;
}
