/**
 * When sequences may join those that run. Continuous batching lets them in at every step; the others, which servers
 * without it use, take a batch when nothing runs and run it to its end before the next.
 */
import type { Batching, Seconds } from '../protocol.js';
import type { Sequence } from '../sequence.js';

/** What waits while nothing runs. */
export interface Waiting {
  readonly count: number;
  /** Whether the one that came first has waited as long as a batch may wait for more. */
  readonly overdue: boolean;
}

/** How many of those that wait form the next batch, now that nothing runs; 0 waits for more. */
export type BatchPolicy = (waiting: Waiting, maxNumSeqs: number) => number;

export const batchPolicies: Readonly<Record<Batching, BatchPolicy>> = {
  continuous: () => Number.POSITIVE_INFINITY,
  dynamic: fullOrOverdue,
  static: fullOrOverdue,
  none: () => 1,
};

/** Of batches that wait for more, if not given: dynamic ones for moments, static ones until it would be absurd. */
export const batchWindows: Readonly<Record<Batching, Seconds>> = {
  continuous: 0,
  dynamic: 0.005,
  static: 10,
  none: 0,
};

function fullOrOverdue({ count, overdue }: Waiting, maxNumSeqs: number): number {
  return count >= maxNumSeqs || overdue ? Math.min(count, maxNumSeqs) : 0;
}

/** Applies a policy: counts a batch in, and opens for the next once it has run to its end. */
export class BatchGate {
  readonly #batching: Batching;
  readonly #maxNumSeqs: number;
  readonly #window: Seconds;
  #quota = 0;
  #opensAt: Seconds | undefined;

  /** @param window of dynamic and static batches; undefined takes that of `batchWindows` */
  constructor(batching: Batching, maxNumSeqs: number, window: Seconds | undefined) {
    this.#batching = batching;
    this.#maxNumSeqs = maxNumSeqs;
    this.#window = window ?? batchWindows[batching];
  }

  /** When a batch that waits for more is taken as it is, after `update` has let it wait. */
  get opensAt(): Seconds | undefined {
    return this.#opensAt;
  }

  /** Whether sequences that have not run yet may start. */
  get open(): boolean {
    return this.#quota > 0;
  }

  /**
   * Before each step.
   * @param waiting those that could start
   */
  update(now: Seconds, running: number, waiting: Iterable<Sequence> & { readonly size: number }): void {
    this.#opensAt = undefined;
    if (this.#batching === 'continuous') {
      this.#quota = Number.POSITIVE_INFINITY;
      return;
    }
    this.#quota = Math.min(this.#quota, waiting.size);
    if (running > 0 || this.#quota > 0 || waiting.size === 0) return;
    const due = waiting.size < this.#maxNumSeqs ? firstArrival(waiting) + this.#window : now;
    this.#quota = batchPolicies[this.#batching]({ count: waiting.size, overdue: now >= due }, this.#maxNumSeqs);
    if (this.#quota === 0) this.#opensAt = due;
  }

  /** Whether a sequence may start now. One that ran before belongs to the batch already. */
  admits(sequence: Sequence): boolean {
    return this.open || sequence.firstScheduled !== undefined;
  }

  /** A sequence starts. */
  pass(sequence: Sequence): void {
    if (sequence.firstScheduled === undefined) this.#quota--;
  }
}

function firstArrival(waiting: Iterable<Sequence>): Seconds {
  let first = Number.POSITIVE_INFINITY;
  for (const { request } of waiting) first = Math.min(first, request.arrival);
  return first;
}
