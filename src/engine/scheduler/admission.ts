/** Lets sequences that wait start: in their order, as far as slots, blocks and the step's budget reach. */
import type { PagedCache } from '../kv/paged-cache.js';
import type { FoundPrefix } from '../kv/prefix-cache.js';
import type { Seconds } from '../protocol.js';
import type { Sequence } from '../sequence.js';
import type { Account } from './account.js';
import type { BatchGate } from './batching.js';
import { scoresPrompt } from './plan.js';
import { blocksFit, fitsBeside, promisedBlocks, reusableTokens } from './room.js';
import type { RunningList } from './running-list.js';
import type { TokenBudget } from './token-budget.js';
import type { WaitingQueue } from './waiting-queue.js';

/** Sequences set aside in one step because they do not fit while others behind them may. */
const MOST_ASIDE = 8;

/** What admission works on, all of it the scheduler's. */
export interface AdmissionParts {
  readonly cache: PagedCache;
  readonly queue: WaitingQueue;
  readonly running: RunningList;
  readonly budget: TokenBudget;
  readonly gate: BatchGate;
  readonly maxNumSeqs: number;
  /** Sequences that run, and those that join them without waiting for admission. */
  readonly takenSlots: () => number;
  /** Takes the blocks for what a sequence has planned; false when they are not there. */
  readonly secure: (sequence: Sequence) => boolean;
  /** Makes a running sequence wait again. */
  readonly preempt: (sequence: Sequence) => void;
}

/** `blocks`: there are too few for it, or no slot. `budget`: what the step has left is for others. */
type Outcome = 'started' | 'blocks' | 'budget';

export class Admission {
  readonly #parts: AdmissionParts;
  /** Sequences started since the start, and the tokens of their prompts; those that ran before do not count again. */
  started = 0;
  startedTokens = 0;
  /** Prompt tokens looked for in the prefix cache since the start, and those found. */
  prefixQueries = 0;
  prefixHits = 0;
  /** `promisedBlocks` of those that run, as long as they stay the same. */
  #promised: number | undefined;

  constructor(parts: AdmissionParts) {
    this.#parts = parts;
  }

  /**
   * Starts what can start. A sequence that does not fit lets later ones pass. Where it lacks blocks these are at most as
   * many as may run: then it waits only for those that run to end, however many short ones keep coming.
   */
  admit(now: Seconds): void {
    const { queue, budget, gate, maxNumSeqs, takenSlots } = this.#parts;
    this.#promised = undefined;
    const aside: { readonly sequence: Sequence; readonly outcome: Outcome }[] = [];
    while (budget.left > 0 && aside.length <= MOST_ASIDE) {
      const sequence = queue.peek();
      if (sequence === undefined || !gate.admits(sequence)) break;
      const outcome = this.#start(sequence, now);
      if (outcome === 'started') {
        for (const passed of aside) if (passed.outcome === 'blocks') passed.sequence.passed++;
        continue;
      }
      if (takenSlots() >= maxNumSeqs || (outcome === 'blocks' && sequence.passed >= maxNumSeqs)) break;
      queue.remove(sequence);
      aside.push({ sequence, outcome });
    }
    for (const { sequence } of aside) queue.push(sequence);
  }

  /** Starts the sequence that is next, if there is room for it. */
  #start(sequence: Sequence, now: Seconds): Outcome {
    const { cache, queue, running, budget, gate, secure } = this.#parts;
    sequence.computed = this.#cachedTokens(sequence);
    const outcome = !budget.admits(sequence) ? 'budget' : this.#makeRoom(sequence) ? 'started' : 'blocks';
    if (outcome !== 'started') {
      sequence.computed = 0;
      return outcome;
    }
    budget.admit(sequence);
    this.#find(sequence, sequence.computed);
    cache.start(sequence.blocks);
    if (!secure(sequence)) throw new Error('blocks of an admission are missing');
    queue.remove(sequence);
    gate.pass(sequence);
    this.#account(sequence);
    sequence.firstScheduled ??= now;
    sequence.state = 'running';
    running.add(sequence);
    this.#promised = undefined;
    return outcome;
  }

  #find({ blocks, tokens, request }: Sequence, limit: number): FoundPrefix {
    return this.#parts.cache.find(blocks, tokens, limit, request.cacheSalt);
  }

  /**
   * Leading tokens of a sequence that come from the prefix cache: whole blocks only, where there is no room for one and
   * the copy of it. A sequence that needs all of the pool would otherwise wait for ever.
   */
  #cachedTokens(sequence: Sequence): number {
    const found = this.#find(sequence, reusableTokens(sequence));
    const room = found.begun === undefined || this.#blocksFit(sequence, found);
    return room ? found.tokens : found.blocks.length * this.#parts.cache.blockSize;
  }

  #blocksFit(sequence: Sequence, found: FoundPrefix): boolean {
    const { cache, running } = this.#parts;
    this.#promised ??= promisedBlocks(running, cache);
    return blocksFit(sequence, found, this.#promised, cache);
  }

  #account(sequence: Sequence): void {
    const { cache, queue } = this.#parts;
    const first = sequence.firstScheduled === undefined;
    if (first) sequence.cachedTokens = sequence.computed;
    queue.serve(sequence, first ? sequence.promptLength - sequence.cachedTokens : 0);
    if (first) {
      this.started++;
      this.startedTokens += sequence.promptLength;
    }
    if (!first || scoresPrompt(sequence) || !cache.findsPrefixes) return;
    this.prefixQueries += sequence.promptLength;
    this.prefixHits += sequence.cachedTokens;
  }

  /** Whether the sequence can start now; those that have to give way to it do so when that is enough. */
  #makeRoom(sequence: Sequence): boolean {
    const { cache, running, maxNumSeqs, takenSlots, preempt } = this.#parts;
    const fits = () => takenSlots() < maxNumSeqs && this.#blocksFit(sequence, this.#find(sequence, sequence.computed));
    if (fits()) return true;
    const entitled = this.#entitled(sequence);
    const lowest = running.victim;
    if (lowest === undefined || (lowest.request.priority <= sequence.request.priority && !entitled)) return false;
    if (!fitsBeside(sequence, staying(running, sequence, entitled), maxNumSeqs, cache)) return false;
    do {
      preempt(running.victim!);
      this.#promised = undefined;
    } while (!fits());
    return true;
  }

  /**
   * Whether others of its priority have to give way to a sequence: its user has none running and wants no more than a
   * fair share of the pool, so that nobody can shut another out.
   */
  #entitled(sequence: Sequence): boolean {
    const { cache } = this.#parts;
    const { running, shares } = sequence.account!;
    return running === 0 && cache.blocksFor(sequence.length) * shares.users <= cache.numBlocks;
  }
}

/**
 * Those that go on whatever it takes to let a sequence start: all of higher priority, and of its own either all or, when
 * it is entitled, the oldest of each user.
 */
function staying(running: RunningList, { request }: Sequence, entitled: boolean): Sequence[] {
  const users = new Set<Account>();
  return [...running].filter((other) => {
    const below = other.request.priority - request.priority;
    if (below !== 0) return below < 0;
    const oldest = !users.has(other.account!);
    users.add(other.account!);
    return oldest || !entitled;
  });
}
