/** What bounds the scheduler, and what it tells of its queue to those who bound that. */
import type { Batching, Seconds } from '../protocol.js';

/** What waits for admission, and how many more sequences could run. */
export interface QueueState {
  readonly requests: number;
  /** Of their prompts. */
  readonly tokens: number;
  readonly freeSlots: number;
}

export interface SchedulerLimits {
  /** Sequences that run at the same time, at most. */
  readonly maxNumSeqs: number;
  /** Tokens of a step, at most. */
  readonly maxNumBatchedTokens: number;
  /** Prompt tokens scored in a step, at most; see `BudgetLimits`. */
  readonly maxScoredTokens: number;
  /** Prompts under way that take more than a step each, at most; 2 if not given. */
  readonly maxNumPartialPrefills?: number | undefined;
  /** Whether prompts and decodes share steps, or have steps of their own in turn; true if not given. */
  readonly mixedSteps?: boolean | undefined;
  /** Whether users of a priority get equal shares; true if not given. */
  readonly fairShare?: boolean | undefined;
  /** Continuous if not given. */
  readonly batching?: Batching | undefined;
  /** How long a dynamic or static batch waits to be full. */
  readonly batchWindow?: Seconds | undefined;
}
