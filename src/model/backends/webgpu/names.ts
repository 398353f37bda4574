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
} as const;

export const LOGITS = 'logits';

/** fp16 [blocks, block size, KV heads, head size] each; a present tensor is the same memory as its past. */
export function cacheNames(layer: number) {
  return {
    past: [`past_key_values.${layer}.key`, `past_key_values.${layer}.value`],
    present: [`present.${layer}.key`, `present.${layer}.value`],
  } as const;
}
