/** Choices of one prompt: they wait with the first of them and start as its copies once the prompt is computed. */
import type { PagedCache } from '../kv/paged-cache.js';
import type { Sequence } from '../sequence.js';
import type { Plan } from './plan.js';
import { forkBlocks, promisedBlocks } from './room.js';
import type { RunningList } from './running-list.js';
import type { WaitingQueue } from './waiting-queue.js';

export class Forks {
  #waiting = 0;

  constructor(
    private readonly cache: PagedCache,
    private readonly running: RunningList,
    private readonly queue: WaitingQueue,
    private readonly maxNumSeqs: number,
  ) {}

  /** Those that wait with another sequence; the queue does not have them. */
  get waiting(): number {
    return this.#waiting;
  }

  enter(sequence: Sequence): void {
    this.#waiting += sequence.forks.length;
  }

  /** As many forks as there is room for start with the step that computes the last of the prompt. */
  plan(sequence: Sequence, plan: Plan): void {
    const { cache, running } = this;
    let slots = this.maxNumSeqs - running.size - plan.forks;
    let blocks = cache.availableBlocks - promisedBlocks(running, cache);
    // What was promised to its forks is there for them.
    for (const fork of sequence.forks) blocks += forkBlocks(fork, cache);
    for (const fork of sequence.forks) {
      blocks -= forkBlocks(fork, cache);
      // One that has nothing to generate ends with the step and takes no room.
      if (fork.wantsToken && (--slots < 0 || blocks < 0)) return;
      plan.addFork(fork, sequence);
    }
  }

  /**
   * Starts the planned forks of a sequence whose prompt is computed; those that found no room wait for it on their own.
   * @param firstChunk in the plan, where its forks begin
   */
  start(sequence: Sequence, plan: Plan, firstChunk: number): void {
    for (let i = firstChunk; plan.chunks[i]?.forkOf === sequence; i++) {
      const fork = plan.chunks[i]!.sequence;
      if (fork.state !== 'waiting') continue;
      this.detach(fork);
      this.cache.fork(sequence.blocks, fork.blocks);
      fork.computed = sequence.computed;
      fork.cachedTokens = sequence.cachedTokens;
      fork.firstScheduled = sequence.firstScheduled;
      fork.state = 'running';
      this.running.add(fork);
    }
    this.orphan(sequence);
  }

  /** The forks of a sequence get along without it: the first of them takes its place. */
  orphan(sequence: Sequence): void {
    const [heir, ...others] = sequence.forks;
    if (heir === undefined) return;
    this.detach(heir);
    for (const fork of others) {
      fork.detach();
      heir.attach(fork);
    }
    // The prompt was looked up and accounted for once, and a request that has been started is not overdue.
    for (const fork of [heir, ...others]) {
      fork.firstScheduled = sequence.firstScheduled;
      fork.cachedTokens = sequence.cachedTokens;
    }
    this.queue.push(heir);
  }

  detach(fork: Sequence): void {
    fork.detach();
    this.#waiting--;
  }
}
