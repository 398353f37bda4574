/**
 * What steps are expected to cost: a fixed part (weights are read, nodes are started), which more threads shorten less than
 * the rows, and each sequence's part by what it computes and the context it reads. The unit is what one thread takes for a
 * decode with about 180 tokens of context beside others. Fitted to `node bench/run.mjs decoder` with the bundled model, with
 * one thread and with two, on the machine of docs/cpu.md; `Pace` finds how long a unit takes elsewhere.
 */

const DECODE = 0.6;
const PREFILL_TOKEN = 0.49;
const CONTEXT_TOKEN = 0.0022;
/** Before the first row, of a thread that computes a share, and of all that compute the step together. */
const START_OF_SHARE = 7;
const START_OF_STEP = 4.6;
/** What rows cost threads together, over what they cost them side by side. */
const TOGETHER = 1.13;

/** A sequence's part of any step. The rows of a chunk read their context together. */
export function sequenceCost(rows: number, past: number): number {
  return (rows === 1 ? DECODE : rows * PREFILL_TOKEN) + past * CONTEXT_TOKEN;
}

/** A share whose sequences cost so much, computed by one of the replicas. */
export function costOfShare(sequences: number): number {
  return START_OF_SHARE + sequences;
}

/** A step whose sequences cost so much, computed at once by the threads of so many replicas. */
export function costOfStep(sequences: number, replicas: number): number {
  return START_OF_STEP + (sequences / replicas) * TOGETHER;
}
