/**
 * The seam between the engine and a device. A runner owns one model and its paged cache; the engine tells it, step by
 * step, which tokens of which sequences to compute and where their blocks lie.
 */

import { UserError } from '../errors.js';

/**
 * The rows of one step, ragged: the new tokens of all its sequences one after another, without padding. T rows, B
 * sequences. A sequence with one new token is a decode, one with more (or without a past) a prefill chunk; both share a
 * step. The arrays may be views of buffers that are reused for the next step.
 */
export interface StepBatch {
  /** i32 [T] token ids. */
  readonly tokens: Int32Array;
  /** i32 [B+1]: the rows of sequence b are cumulativeLengths[b] to cumulativeLengths[b+1] - 1. */
  readonly cumulativeLengths: Int32Array;
  /** i32 [B] tokens of each sequence that are in the cache already. */
  readonly pastLengths: Int32Array;
  /**
   * i32 [B, maxBlocks] row-major. Token at position p of sequence b lies in block blockTables[b, p / blockSize], slot
   * p % blockSize. Covers past and new tokens; entries past the end of a sequence are 0 and are never read.
   */
  readonly blockTables: Int32Array;
  readonly maxBlocks: number;
  /**
   * u8 [B]: 1 where the rows are tokens that were generated, 0 where they are of a prompt. A backend with different
   * arithmetic for decodes and prefills tells them apart by it, so that the last token of a prompt is computed the same
   * way however the prompt was cut into chunks. Absent: sequences with one new token are decodes.
   */
  readonly generated?: Uint8Array;
  /** i32 [S] rows (0..T-1, ascending) whose logits are wanted. S may be 0. */
  readonly logitRows: Int32Array;
  /** u8 [S]: 1 where the likeliest token of the row is all that is needed. Absent: every row is wanted whole. */
  readonly greedyRows?: Uint8Array;
  /** f32 [S] temperature that each row is sampled with, above 0; 1 where it is not sampled. For `StepLogits.summaries`. */
  readonly temperatures?: Float32Array;
}

/** Logits of the rows asked for. The arrays belong to the caller until its next `run`. */
export interface StepLogits {
  readonly vocabSize: number;
  /**
   * f32 [rows, vocabSize] row-major, in the order of `StepBatch.logitRows`; unscaled. Without `likeliest` all rows, with
   * it only those that are not in `StepBatch.greedyRows`.
   */
  readonly values: Float32Array;
  /** What a device that can reduce rows itself found in all of them. */
  readonly likeliest?: Likeliest;
  /** Of each row of `values`, where a device sums rows up itself. */
  readonly summaries?: RowSummaries;
}

/** Rows in chunks of `chunkSize` neighbouring tokens; `chunks` of them make up the vocabulary. */
export interface RowSummaries {
  readonly chunkSize: number;
  readonly chunks: number;
  /** f32 [rows, chunks] the largest logit of each chunk. */
  readonly maxima: Float32Array;
  /** f32 [rows, chunks] the chunk's share of the probability at the row's temperature. */
  readonly masses: Float32Array;
}

export interface Likeliest {
  /** i32 [S] the likeliest token of each row; the lowest among equals. Means nothing where `logits` is not finite. */
  readonly tokens: Int32Array;
  /** f32 [S] its logit; NaN or infinite where any logit of the row is. */
  readonly logits: Float32Array;
}

export interface ModelRunner {
  readonly device: 'cpu' | 'webgpu';
  /** One line for people: provider, adapter, threads. */
  readonly description: string;
  readonly vocabSize: number;
  /** Tokens a block holds. */
  readonly blockSize: number;
  readonly numBlocks: number;
  /** Bytes of the paged cache. */
  readonly kvCacheBytes: number;
  /** Whether a step of prompts and decodes takes much less than one of each would. */
  readonly mixedSteps: boolean;

  /**
   * Computes the rows, writes their keys and values into their slots and returns the logits asked for. Transactional: if
   * it rejects, no slot below any sequence's past length has changed and the same batch may be run again.
   */
  run(batch: StepBatch): Promise<StepLogits>;

  /** Copies whole blocks within the cache, in order: source[i] to target[i]. Between steps only. */
  copyBlocks(source: Int32Array, target: Int32Array): Promise<void>;

  /** Releases sessions and cache. The runner must not be used afterwards. */
  dispose(): Promise<void>;
}

/** The device is gone and with it the cache: no step can succeed any more. The message is for the person who started it. */
export class RunnerLostError extends UserError {}
