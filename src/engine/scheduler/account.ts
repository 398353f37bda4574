/**
 * Fair shares within a priority class: each user has an account of the tokens it was served, and whoever was served least
 * is next. After the Virtual Token Counter of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024).
 */
import { compareSequences, type Sequence } from '../sequence.js';
import { type HeapItem, IndexedHeap } from './indexed-heap.js';

/** Users without a sequence whose account is remembered, at most, in each class. */
const REMEMBERED = 4096;

/** One user in one class. */
export class Account implements HeapItem {
  /** Tokens computed for the user: of prompts, unless they were cached, and generated. What preemption repeats is free. */
  served = 0;
  /** Sequences in the engine, and how many of them run. */
  active = 0;
  running = 0;
  /** Those that wait for admission, the first come first. */
  readonly line = new IndexedHeap<Sequence>(compareSequences);
  queueIndex = -1;
  /** Tokens that are not yet among those served: the order of accounts changes at one point only. */
  owed = 0;

  constructor(
    readonly user: string,
    readonly shares: PriorityClass,
  ) {}
}

export class PriorityClass {
  readonly #accounts = new Map<string, Account>();
  /** Of users that have nothing here now, longest ago first. */
  readonly #absent = new Map<string, Account>();
  readonly #waiting = new IndexedHeap<Account>(compareAccounts);
  /** What the account that was served last had been served before: nobody who waits has been served less. */
  #level = 0;

  constructor(readonly priority: number) {}

  /** Whether no sequence of the class is in the engine. */
  get idle(): boolean {
    return this.#accounts.size === 0;
  }

  /** The sequence to admit next. O(1). */
  peek(): Sequence | undefined {
    return this.#waiting.peek()?.line.peek();
  }

  /** The account of a user, which gets one more sequence. */
  enter(user: string): Account {
    const account = this.#accounts.get(user) ?? this.#absent.get(user) ?? new Account(user, this);
    if (account.active++ === 0) {
      this.#absent.delete(user);
      this.#accounts.set(user, account);
    }
    return account;
  }

  /** A sequence of the account has ended. */
  leave(account: Account): void {
    if (--account.active > 0) return;
    this.#accounts.delete(account.user);
    if (account.served <= this.#level) return;
    this.#absent.set(account.user, account);
    if (this.#absent.size > REMEMBERED) this.#absent.delete(this.#absent.keys().next().value!);
  }

  /** Puts a sequence into its user's line. A user who had none waiting has not saved up for it. O(log n). */
  push(sequence: Sequence, account: Account): void {
    if (account.line.size === 0) account.served = Math.max(account.served, this.#level);
    account.line.push(sequence);
    if (account.queueIndex < 0) this.#waiting.push(account);
    else this.#waiting.update(account);
  }

  /** Takes a sequence out of its user's line. O(log n). */
  remove(sequence: Sequence, account: Account): void {
    if (sequence.queueIndex < 0) return;
    account.line.remove(sequence);
    if (account.line.size === 0) this.#waiting.remove(account);
    else this.#waiting.update(account);
  }

  /** Notes that the account is the one being served. */
  serve(account: Account): void {
    this.#level = Math.max(this.#level, account.served);
  }

  /** Counts what is owed as served and finds the account's new place. */
  settle(account: Account): void {
    account.served += account.owed;
    account.owed = 0;
    if (account.queueIndex >= 0) this.#waiting.update(account);
  }

  /** All accounts with sequences. */
  get accounts(): Iterable<Account> {
    return this.#accounts.values();
  }

  /** How many sequences of a user wait. */
  waiting(user: string): number {
    return this.#accounts.get(user)?.line.size ?? 0;
  }

  /** Of the account with most sequences waiting the last to be served, unless it ran before. O(accounts + its line). */
  lastOfLongest(): Sequence | undefined {
    let longest: Account | undefined;
    for (const account of this.#accounts.values()) {
      if (account.line.size > (longest?.line.size ?? 0)) longest = account;
    }
    let last: Sequence | undefined;
    for (const sequence of longest?.line ?? []) {
      if (sequence.firstScheduled !== undefined) continue;
      if (last === undefined || compareSequences(last, sequence) < 0) last = sequence;
    }
    return last;
  }

  /** How many they are. */
  get users(): number {
    return this.#accounts.size;
  }
}

/** Both have sequences waiting. */
function compareAccounts(a: Account, b: Account): number {
  return a.served - b.served || compareSequences(a.line.peek()!, b.line.peek()!);
}
