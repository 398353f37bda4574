/**
 * Decides, step by step, which sequences compute how many tokens: bookkeeping only, without a clock or a model. There is
 * no prefill phase and no decode phase; every sequence moves `computed` towards the end of its tokens. Running sequences
 * come first, then admission, within a token budget and the blocks of the pool. When blocks run out, the youngest
 * sequence of the user with most of them in the lowest priority loses its own and is computed again later.
 *
 * Of those that run, the oldest of the highest priority is never preempted and gets a token at least every few steps, so
 * it ends; then it is the turn of the next. That is why every sequence ends.
 */
import type { PagedCache } from '../kv/paged-cache.js';
import type { FinishReason, GenerationRequest, Seconds, TokenId } from '../protocol.js';
import type { Sequence } from '../sequence.js';
import { Admission } from './admission.js';
import { BatchGate } from './batching.js';
import { Deadlines } from './deadlines.js';
import { Forks } from './forks.js';
import type { QueueState, SchedulerLimits } from './limits.js';
import { Plan } from './plan.js';
import { takenSlots } from './room.js';
import { RunningList } from './running-list.js';
import { type StepKind, StepKinds } from './step-kind.js';
import { TokenBudget } from './token-budget.js';
import { WaitingQueue } from './waiting-queue.js';

/** In `commit`: no token was sampled for this chunk. */
export const NO_TOKEN: TokenId = -1;

export class Scheduler {
  readonly #cache: PagedCache;
  readonly #maxNumSeqs: number;
  readonly #budget: TokenBudget;
  readonly #queue: WaitingQueue;
  readonly #running = new RunningList();
  readonly #forks: Forks;
  readonly #gate: BatchGate;
  readonly #kinds: StepKinds;
  readonly #admission: Admission;
  readonly #deadlines = new Deadlines();
  readonly #plan = new Plan();
  /** The running sequences at the start of a step. */
  readonly #secured: Sequence[] = [];
  #preemptions = 0;

  constructor(cache: PagedCache, limits: SchedulerLimits) {
    const { maxNumSeqs, maxNumPartialPrefills = 2, fairShare = true, batching = 'continuous', batchWindow } = limits;
    this.#cache = cache;
    this.#maxNumSeqs = maxNumSeqs;
    this.#budget = new TokenBudget({ ...limits, maxNumPartialPrefills, blockSize: cache.blockSize });
    this.#queue = new WaitingQueue(fairShare);
    this.#forks = new Forks(cache, this.#running, this.#queue, maxNumSeqs);
    this.#kinds = new StepKinds(limits.mixedSteps ?? true);
    this.#gate = new BatchGate(batching, maxNumSeqs, batchWindow);
    this.#admission = new Admission({
      cache,
      maxNumSeqs,
      queue: this.#queue,
      running: this.#running,
      budget: this.#budget,
      gate: this.#gate,
      takenSlots: () => this.#takenSlots(),
      secure: (sequence) => this.#secure(sequence),
      preempt: (sequence) => this.#preempt(sequence),
    });
  }

  get running(): number {
    return this.#running.size;
  }

  get waiting(): number {
    return this.#queue.size + this.#forks.waiting;
  }

  get hasWork(): boolean {
    return this.#running.size > 0 || this.#queue.size > 0;
  }

  /** What waits for admission: requests, or the part of one that found no room with the rest. */
  get queue(): QueueState {
    const { size, tokens } = this.#queue;
    return { requests: size, tokens, freeSlots: Math.max(0, this.#maxNumSeqs - this.#takenSlots()) };
  }

  /**
   * After an empty plan, when the next may have something if nothing arrives before: a batch that waits to be full starts
   * as it is, or a sequence is overdue. Undefined: at once.
   */
  get idleUntil(): Seconds | undefined {
    const { opensAt } = this.#gate;
    return opensAt === undefined ? undefined : Math.min(opensAt, this.#deadlines.next);
  }

  /** Sequences that were started since the start, and the tokens of their prompts. */
  get started(): { readonly sequences: number; readonly tokens: number } {
    return { sequences: this.#admission.started, tokens: this.#admission.startedTokens };
  }

  /** Slots of blocks that are taken but hold no token yet. O(running). */
  get emptySlots(): number {
    let slots = 0;
    for (const { blocks, computed } of this.#running) slots += blocks.length * this.#cache.blockSize - computed;
    return slots;
  }

  /** Preemptions since the start. */
  get preemptions(): number {
    return this.#preemptions;
  }

  /** Prompt tokens that were looked for in the prefix cache since the start. */
  get prefixQueries(): number {
    return this.#admission.prefixQueries;
  }

  /** Those of them that were found. */
  get prefixHits(): number {
    return this.#admission.prefixHits;
  }

  /** Takes in a sequence that passed `refusal`, and its forks with it. O(log n). */
  add(sequence: Sequence): void {
    for (const entering of [sequence, ...sequence.forks]) this.#queue.enter(entering);
    this.#queue.push(sequence);
    this.#forks.enter(sequence);
    this.#deadlines.note(sequence);
  }

  /** Sequences that were not started by their deadline; whoever asks has to `finish` them. */
  overdue(now: Seconds): readonly Sequence[] {
    return this.#deadlines.overdue(now, this.#queue);
  }

  /** A waiting sequence that has to make way in a full queue for a request; undefined when the request has to. */
  surplus(request: GenerationRequest): Sequence | undefined {
    return this.#queue.surplus(request);
  }

  /**
   * Plans the next step and takes the blocks for it. The plan is empty when preemption took its last sequence, and then
   * the next one makes progress, or when a batch waits to be full, until `idleUntil`. Each must be followed by `commit` or
   * `rollback`; only `finish` and `add` may come between.
   */
  schedule(now: Seconds): Plan {
    this.#plan.clear();
    this.#queue.settle();
    this.#gate.update(now, this.#running.size, this.#queue);
    const admissionPossible = this.#admissionPossible();
    let kind = this.#kinds.next(this.#running, admissionPossible);
    this.#fill(kind, admissionPossible, now);
    if (kind === 'prompts' && !this.#budget.used) {
      // None could start after all.
      kind = 'decodes';
      this.#fill(kind, false, now);
    }
    this.#kinds.note(kind);
    for (const sequence of this.#running) {
      if (sequence.planned > 0) this.#plan.add(sequence);
      if (sequence.forks.length > 0 && sequence.planned === sequence.pending) this.#forks.plan(sequence, this.#plan);
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
        if (sequence.forks.length > 0 && sequence.pending === 0) this.#forks.start(sequence, plan, i + 1);
      }
      const token = sampled[i]!;
      if (token !== NO_TOKEN) {
        this.#queue.charge(sequence, 1);
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
    else if (sequence.origin !== undefined) this.#forks.detach(sequence);
    else this.#queue.remove(sequence);
    this.#forks.orphan(sequence);
    this.#queue.leave(sequence);
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

  /** Shares the budget out and takes the blocks for it. */
  #fill(kind: StepKind, admissionPossible: boolean, now: Seconds): void {
    const preemptions = this.#preemptions;
    this.#budget.share(this.#running, kind, admissionPossible);
    this.#secureBlocks();
    if (kind === 'decodes') return;
    if (this.#preemptions === preemptions) this.#admission.admit(now);
    this.#budget.topUp(this.#running, (sequence) => this.#secure(sequence));
  }

  #takenSlots(): number {
    return this.#forks.waiting === 0 ? this.#running.size : takenSlots(this.#running);
  }

  #admissionPossible(): boolean {
    return this.#queue.size > 0 && this.#gate.open && this.#takenSlots() < this.#maxNumSeqs;
  }

  /** In order of service. Whoever is preempted for it may have been given its blocks in this step already. */
  #secureBlocks(): void {
    const secured = this.#secured;
    secured.length = 0;
    for (const sequence of this.#running) if (sequence.planned > 0) secured.push(sequence);
    for (const sequence of secured) {
      while (sequence.planned > 0 && !this.#secure(sequence)) this.#preempt(this.#running.victim!);
    }
  }

  /** Takes the blocks for what a sequence computes in this step; false when they are not there. */
  #secure(sequence: Sequence): boolean {
    const { blocks, computed, planned } = sequence;
    return this.#cache.grow(blocks, computed + planned, computed, this.#plan.copies);
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
