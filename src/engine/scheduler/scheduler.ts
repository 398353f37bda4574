/**
 * Decides, step by step, which sequences compute how many tokens: bookkeeping only, without a clock or a model. There is
 * no prefill phase and no decode phase; every sequence moves `computed` towards the end of its tokens. Running sequences
 * come first, then admission in order of priority and arrival, within a token budget and the blocks of the pool. When
 * blocks run out, the youngest sequence of the lowest priority loses its own and is computed again later.
 *
 * Of those that run, the oldest of the highest priority is never preempted and gets a token at least every few steps, so
 * it ends; then it is the turn of the next. That is why every sequence ends.
 */
import type { PagedCache } from '../kv/paged-cache.js';
import type { FinishReason, Seconds, TokenId } from '../protocol.js';
import type { Sequence } from '../sequence.js';
import { fits, fitsAfterPreemption, forkBlocks, promisedBlocks, reusableTokens } from './admission.js';
import { Plan, scoresPrompt } from './plan.js';
import { RunningList } from './running-list.js';
import { TokenBudget } from './token-budget.js';
import { WaitingQueue } from './waiting-queue.js';

export interface SchedulerLimits {
  /** Sequences that run at the same time, at most. */
  readonly maxNumSeqs: number;
  /** Tokens of a step, at most. */
  readonly maxNumBatchedTokens: number;
  /** Prompt tokens scored in a step, at most; see `BudgetLimits`. */
  readonly maxScoredTokens: number;
}

/** In `commit`: no token was sampled for this chunk. */
export const NO_TOKEN: TokenId = -1;

export class Scheduler {
  readonly #cache: PagedCache;
  readonly #maxNumSeqs: number;
  readonly #budget: TokenBudget;
  readonly #queue = new WaitingQueue();
  readonly #running = new RunningList();
  readonly #plan = new Plan();
  /** Forks that wait with a sequence; the queue does not have them. */
  #attached = 0;
  #preemptions = 0;
  #prefixQueries = 0;
  #prefixHits = 0;

  constructor(cache: PagedCache, limits: SchedulerLimits) {
    this.#cache = cache;
    this.#maxNumSeqs = limits.maxNumSeqs;
    this.#budget = new TokenBudget({ ...limits, blockSize: cache.blockSize });
  }

  get running(): number {
    return this.#running.size;
  }

  get waiting(): number {
    return this.#queue.size + this.#attached;
  }

  get hasWork(): boolean {
    return this.#running.size > 0 || this.#queue.size > 0;
  }

  /** Preemptions since the start. */
  get preemptions(): number {
    return this.#preemptions;
  }

  /** Slots of blocks that are taken but hold no token yet. O(running). */
  get emptySlots(): number {
    let slots = 0;
    for (const { blocks, computed } of this.#running) slots += blocks.length * this.#cache.blockSize - computed;
    return slots;
  }

  /** Prompt tokens that were looked for in the prefix cache since the start. */
  get prefixQueries(): number {
    return this.#prefixQueries;
  }

  /** Those of them that were found. */
  get prefixHits(): number {
    return this.#prefixHits;
  }

  /** Takes in a sequence that passed `refusal`, and its forks with it. O(log n). */
  add(sequence: Sequence): void {
    this.#queue.push(sequence);
    this.#attached += sequence.forks.length;
  }

  /**
   * Plans the next step and takes the blocks for it. The plan may be empty when preemption took its last sequence; the
   * next one makes progress. Each must be followed by `commit` or `rollback`; only `finish` and `add` may come between.
   */
  schedule(now: Seconds): Plan {
    const preemptions = this.#preemptions;
    this.#plan.clear();
    const admissionPossible = this.#queue.size > 0 && this.#running.size < this.#maxNumSeqs;
    this.#budget.share(this.#running, admissionPossible);
    this.#secureBlocks();
    if (this.#preemptions === preemptions) this.#admit(now);
    for (const sequence of this.#running) {
      if (sequence.planned > 0) this.#plan.add(sequence);
      if (sequence.forks.length > 0 && sequence.planned === sequence.pending) this.#planForks(sequence);
    }
    return this.#plan;
  }

  /**
   * The step succeeded: what was planned is in the cache. Sequences that were finished meanwhile are passed over.
   * @param sampled for each chunk of the plan the token drawn, or NO_TOKEN
   */
  commit(plan: Plan, sampled: ArrayLike<TokenId>): void {
    for (let i = 0; i < plan.chunks.length; i++) {
      const { sequence, count, forkOf } = plan.chunks[i]!;
      if (sequence.state !== 'running') continue;
      if (forkOf === undefined) {
        sequence.computed += count;
        sequence.planned = 0;
        this.#cache.publish(sequence.blocks, sequence.tokens, sequence.computed, sequence.request.cacheSalt);
        if (sequence.forks.length > 0 && sequence.pending === 0) this.#fork(sequence, plan, i + 1);
      }
      const token = sampled[i]!;
      if (token !== NO_TOKEN) {
        const finish = sequence.append(token);
        if (finish !== undefined) this.finish(sequence, finish);
      } else if (sequence.pending === 0 && !sequence.wantsToken) {
        this.finish(sequence, 'length');
      }
    }
  }

  /** The step failed: nothing of the plan was computed. Its sequences stay as they were before it. */
  rollback(plan: Plan): void {
    for (const { sequence } of plan.chunks) {
      sequence.planned = 0;
      if (sequence.state === 'running') this.#cache.shrink(sequence.blocks, sequence.computed);
    }
  }

  /**
   * Ends a sequence, wherever it is, and gives back its blocks at once. Its forks go on without it. Nothing happens when
   * it has ended.
   */
  finish(sequence: Sequence, reason: FinishReason): void {
    if (sequence.state === 'finished') return;
    if (sequence.state === 'running') this.#running.remove(sequence);
    else if (sequence.origin !== undefined) this.#detach(sequence);
    else this.#queue.remove(sequence);
    this.#orphan(sequence);
    this.#cache.shrink(sequence.blocks, 0);
    sequence.planned = 0;
    sequence.state = 'finished';
    sequence.finish = reason;
  }

  /** Proves that blocks belong to running sequences, the prefix cache and nobody else; throws what is wrong. */
  check(): void {
    for (const sequence of this.#queue) {
      if (sequence.blocks.length > 0) throw new Error('a waiting sequence holds blocks');
    }
    this.#cache.check(Array.from(this.#running, (sequence) => sequence.blocks));
  }

  /** As many forks as there is room for start with the step that computes the last of the prompt. */
  #planForks(sequence: Sequence): void {
    const others = this.#running;
    let slots = this.#maxNumSeqs - others.size - this.#plan.forks;
    let blocks = this.#cache.availableBlocks - promisedBlocks(others, this.#cache);
    // What was promised to its forks is there for them.
    for (const fork of sequence.forks) blocks += forkBlocks(fork, this.#cache);
    for (const fork of sequence.forks) {
      blocks -= forkBlocks(fork, this.#cache);
      // One that has nothing to generate ends with the step and takes no room.
      if (fork.wantsToken && (--slots < 0 || blocks < 0)) return;
      this.#plan.addFork(fork, sequence);
    }
  }

  /** Starts the planned forks of a sequence whose prompt is computed; those that found no room wait for it on their own. */
  #fork(sequence: Sequence, plan: Plan, firstChunk: number): void {
    for (let i = firstChunk; plan.chunks[i]?.forkOf === sequence; i++) {
      const fork = plan.chunks[i]!.sequence;
      if (fork.state !== 'waiting') continue;
      this.#detach(fork);
      this.#cache.fork(sequence.blocks, fork.blocks);
      fork.computed = sequence.computed;
      fork.cachedTokens = sequence.cachedTokens;
      fork.firstScheduled = sequence.firstScheduled;
      fork.state = 'running';
      this.#running.add(fork);
    }
    this.#orphan(sequence);
  }

  /** The forks of a sequence get along without it: the first of them takes its place. */
  #orphan(sequence: Sequence): void {
    const [heir, ...others] = sequence.forks;
    if (heir === undefined) return;
    this.#detach(heir);
    for (const fork of others) {
      fork.detach();
      heir.attach(fork);
    }
    this.#queue.push(heir);
  }

  #detach(fork: Sequence): void {
    fork.detach();
    this.#attached--;
  }

  /** Oldest first, so that whoever is preempted has taken no block in this step. */
  #secureBlocks(): void {
    for (let i = 0; i < this.#running.size; i++) {
      const sequence = this.#running.at(i);
      while (sequence.planned > 0 && !this.#secure(sequence)) this.#preempt(this.#running.last!);
    }
  }

  /** Takes the blocks for what a sequence computes in this step; false when they are not there. */
  #secure(sequence: Sequence): boolean {
    const { blocks, computed, planned } = sequence;
    return this.#cache.grow(blocks, computed + planned, computed, this.#plan.copies);
  }

  #admit(now: Seconds): void {
    while (this.#budget.left > 0) {
      const sequence = this.#queue.peek();
      if (sequence === undefined || !this.#makeRoom(sequence) || !this.#start(sequence)) return;
      this.#queue.remove(sequence);
      sequence.state = 'running';
      if (sequence.firstScheduled === undefined) this.#countPrefix(sequence);
      sequence.firstScheduled ??= now;
      this.#running.add(sequence);
    }
  }

  /** Gives a sequence what the prefix cache has of it and plans its first chunk; false when the budget has no room for it. */
  #start(sequence: Sequence): boolean {
    const { blocks, request } = sequence;
    const found = this.#cache.find(blocks, sequence.tokens, reusableTokens(sequence), request.cacheSalt);
    sequence.computed = found.blocks.length * this.#cache.blockSize;
    if (!this.#budget.prefill(sequence)) {
      sequence.computed = 0;
      return false;
    }
    this.#cache.start(blocks);
    if (!this.#secure(sequence)) throw new Error('blocks of an admission are missing');
    return true;
  }

  #countPrefix(sequence: Sequence): void {
    sequence.cachedTokens = sequence.computed;
    if (scoresPrompt(sequence) || !this.#cache.findsPrefixes) return;
    this.#prefixQueries += sequence.promptLength;
    this.#prefixHits += sequence.cachedTokens;
  }

  /** Whether the sequence can start now; those of lower priority give way to it when that is enough. */
  #makeRoom(sequence: Sequence): boolean {
    const fitsNow = () => {
      const { blocks, tokens, request } = sequence;
      const found = this.#cache.find(blocks, tokens, reusableTokens(sequence), request.cacheSalt);
      return fits(sequence, found, this.#running, this.#maxNumSeqs, this.#cache);
    };
    if (fitsNow()) return true;
    const last = this.#running.last;
    if (last === undefined || last.request.priority <= sequence.request.priority) return false;
    if (!fitsAfterPreemption(sequence, this.#running, this.#maxNumSeqs, this.#cache)) return false;
    do this.#preempt(this.#running.last!);
    while (!fitsNow());
    return true;
  }

  #preempt(sequence: Sequence): void {
    this.#budget.withdraw(sequence);
    this.#cache.shrink(sequence.blocks, 0);
    sequence.computed = 0;
    sequence.state = 'waiting';
    sequence.preemptions++;
    this.#preemptions++;
    this.#running.remove(sequence);
    this.#queue.push(sequence);
  }
}
