/** Sequences must be started by a time, or not at all. Looks at the queue only when one of them can be overdue. */
import type { Seconds } from '../protocol.js';
import type { Sequence } from '../sequence.js';

export class Deadlines {
  #next: Seconds = Number.POSITIVE_INFINITY;

  /** Nothing is overdue before. May be too early, never too late. */
  get next(): Seconds {
    return this.#next;
  }

  /** A sequence begins to wait. */
  note(sequence: Sequence): void {
    this.#next = Math.min(this.#next, sequence.deadline);
  }

  /** Those among the waiting that have not been started in time. O(waiting) when there may be any, else O(1). */
  overdue(now: Seconds, waiting: Iterable<Sequence>): readonly Sequence[] {
    if (now < this.#next) return [];
    this.#next = Number.POSITIVE_INFINITY;
    const overdue: Sequence[] = [];
    for (const sequence of waiting) {
      if (sequence.firstScheduled !== undefined) continue;
      if (sequence.deadline <= now) overdue.push(sequence);
      else this.note(sequence);
    }
    return overdue;
  }
}
