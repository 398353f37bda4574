/**
 * Sequences that wait for admission, the next one first: by priority, then the user who was served least, then arrival.
 * Also keeps the books of who was served how much.
 */
import type { GenerationRequest } from '../protocol.js';
import type { Sequence } from '../sequence.js';
import { type Account, PriorityClass } from './account.js';

export class WaitingQueue {
  readonly #fairShare: boolean;
  /** Of those with sequences in the engine, the first served first. */
  readonly #classes: PriorityClass[] = [];
  readonly #charged: Account[] = [];
  #size = 0;
  #tokens = 0;

  /** @param fairShare whether users have accounts of their own; else arrival alone decides within a priority */
  constructor(fairShare: boolean) {
    this.#fairShare = fairShare;
  }

  get size(): number {
    return this.#size;
  }

  /** Of the prompts of those that wait. */
  get tokens(): number {
    return this.#tokens;
  }

  /** The sequence to admit next. O(priorities in use). */
  peek(): Sequence | undefined {
    for (const shares of this.#classes) {
      const sequence = shares.peek();
      if (sequence !== undefined) return sequence;
    }
    return undefined;
  }

  /** A sequence comes into the engine: it gets its account, and waits only after `push`. */
  enter(sequence: Sequence): void {
    const { priority, user } = sequence.request;
    sequence.account = this.#class(priority).enter(this.#fairShare ? user : '');
  }

  /** A sequence that neither waits nor runs any more leaves the engine. */
  leave({ account }: Sequence): void {
    const { shares } = account!;
    shares.leave(account!);
    if (shares.idle) this.#classes.splice(this.#classes.indexOf(shares), 1);
  }

  /** O(log n). */
  push(sequence: Sequence): void {
    sequence.account!.shares.push(sequence, sequence.account!);
    this.#size++;
    this.#tokens += sequence.promptLength;
  }

  /** Takes a sequence out, wherever it lies; nothing happens when it does not wait. O(log n). */
  remove(sequence: Sequence): void {
    if (sequence.queueIndex < 0) return;
    sequence.account!.shares.remove(sequence, sequence.account!);
    this.#size--;
    this.#tokens -= sequence.promptLength;
  }

  /** Accounts for tokens computed for a sequence; counts in the order of those that wait after `settle`. */
  charge({ account }: Sequence, tokens: number): void {
    if (account!.owed === 0) this.#charged.push(account!);
    account!.owed += tokens;
  }

  /** The sequence is the one whose turn it is, and its first tokens are accounted for. */
  serve(sequence: Sequence, tokens: number): void {
    sequence.account!.shares.serve(sequence.account!);
    this.charge(sequence, tokens);
    this.settle();
  }

  /** Puts those that wait in order after charges. */
  settle(): void {
    for (const account of this.#charged) account.shares.settle(account);
    this.#charged.length = 0;
  }

  /**
   * The one to give up for a newcomer: of the lowest priority, of the user who has most waiting there, the last. Undefined
   * when that would be the newcomer. Sequences that ran before are not given up.
   */
  surplus(newcomer: GenerationRequest): Sequence | undefined {
    for (const shares of [...this.#classes].reverse()) {
      if (shares.priority < newcomer.priority) return undefined;
      const own = shares.priority === newcomer.priority ? shares.waiting(this.#fairShare ? newcomer.user : '') + 1 : 0;
      const last = shares.lastOfLongest();
      if (last !== undefined) return last.account!.line.size > own ? last : undefined;
    }
    return undefined;
  }

  /** In no particular order. */
  *[Symbol.iterator](): Generator<Sequence> {
    for (const shares of this.#classes) {
      for (const { line } of shares.accounts) yield* line;
    }
  }

  #class(priority: number): PriorityClass {
    const classes = this.#classes;
    let index = 0;
    while (index < classes.length && classes[index]!.priority < priority) index++;
    if (classes[index]?.priority !== priority) classes.splice(index, 0, new PriorityClass(priority));
    return classes[index]!;
  }
}
