/** What is kept of a simulation: the latencies of every request, and sums over steps weighed by their time. */
import type { PagedCache } from '../engine/kv/paged-cache.js';
import type { Seconds } from '../engine/protocol.js';
import type { Scheduler } from '../engine/scheduler/scheduler.js';
import type { Sequence } from '../engine/sequence.js';
import { type Statistics, statistics } from '../loadgen/stats.js';

export interface Summary {
  readonly requests: number;
  readonly refused: number;
  readonly overdue: number;
  /** Seconds from the first arrival's clock start to the last end. */
  readonly duration: Seconds;
  readonly requestsPerSecond: number;
  readonly outputTokensPerSecond: number;
  readonly tokensPerSecond: number;
  /** Milliseconds; undefined without a request that has them. */
  readonly ttft: Statistics | undefined;
  readonly tpot: Statistics | undefined;
  readonly e2e: Statistics | undefined;
  readonly steps: number;
  /** Share of the time in which a step ran. */
  readonly utilization: number;
  readonly tokensPerStep: number;
  /** Means over the time in which steps ran. */
  readonly running: number;
  readonly waiting: number;
  /** Shares of the pool's blocks that sequences held: mean and most. */
  readonly blocksUsed: number;
  readonly blocksUsedMost: number;
  /** Share of the slots in held blocks that held no token. */
  readonly waste: number;
  readonly preemptions: number;
  /** Share of prompt tokens that came from the prefix cache. */
  readonly prefixHits: number;
}

export class Tally {
  ended = 0;
  refused = 0;
  overdue = 0;
  readonly #ttft: Float64Array;
  readonly #tpot: Float64Array;
  readonly #e2e: Float64Array;
  #tpots = 0;
  #outputTokens = 0;
  #promptTokens = 0;
  #duration: Seconds = 0;
  #busy: Seconds = 0;
  #steps = 0;
  #rows = 0;
  #running = 0;
  #waiting = 0;
  #blocks = 0;
  #blocksMost = 0;
  #numBlocks = 1;
  #emptySlots = 0;
  #slots = 0;
  #preemptions = 0;
  #queries = 0;
  #hits = 0;

  constructor(requests: number) {
    this.#ttft = new Float64Array(requests);
    this.#tpot = new Float64Array(requests);
    this.#e2e = new Float64Array(requests);
  }

  /** A step of so many seconds is planned and not committed yet. */
  step(seconds: Seconds, prefillTokens: number, decodeTokens: number, scheduler: Scheduler, cache: PagedCache): void {
    const used = cache.numBlocks - cache.availableBlocks;
    this.#steps++;
    this.#busy += seconds;
    this.#rows += prefillTokens + decodeTokens;
    this.#running += scheduler.running * seconds;
    this.#waiting += scheduler.waiting * seconds;
    this.#numBlocks = cache.numBlocks;
    this.#blocks += used * seconds;
    this.#blocksMost = Math.max(this.#blocksMost, used);
    this.#slots += used * cache.blockSize * seconds;
    this.#emptySlots += (scheduler.emptySlots - prefillTokens - decodeTokens) * seconds;
  }

  end({ request, firstToken, generated, promptLength }: Sequence, now: Seconds): void {
    this.#ttft[this.ended] = ((firstToken ?? now) - request.arrival) * 1000;
    this.#e2e[this.ended++] = (now - request.arrival) * 1000;
    if (generated > 1) this.#tpot[this.#tpots++] = ((now - firstToken!) / (generated - 1)) * 1000;
    this.#outputTokens += generated;
    this.#promptTokens += promptLength;
  }

  close(now: Seconds, scheduler: Scheduler): void {
    this.#duration = now;
    this.#preemptions = scheduler.preemptions;
    this.#queries = scheduler.prefixQueries;
    this.#hits = scheduler.prefixHits;
  }

  summary(): Summary {
    const duration = this.#duration || 1;
    const busy = this.#busy || 1;
    return {
      requests: this.ended,
      refused: this.refused,
      overdue: this.overdue,
      duration: this.#duration,
      requestsPerSecond: this.ended / duration,
      outputTokensPerSecond: this.#outputTokens / duration,
      tokensPerSecond: (this.#outputTokens + this.#promptTokens) / duration,
      ttft: statistics(this.#ttft.subarray(0, this.ended)),
      tpot: statistics(this.#tpot.subarray(0, this.#tpots)),
      e2e: statistics(this.#e2e.subarray(0, this.ended)),
      steps: this.#steps,
      utilization: this.#busy / duration,
      tokensPerStep: this.#rows / (this.#steps || 1),
      running: this.#running / busy,
      waiting: this.#waiting / busy,
      blocksUsed: this.#blocks / busy / this.#numBlocks,
      blocksUsedMost: this.#blocksMost / this.#numBlocks,
      waste: this.#emptySlots / (this.#slots || 1),
      preemptions: this.#preemptions,
      prefixHits: this.#hits / (this.#queries || 1),
    };
  }
}
