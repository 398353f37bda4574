/**
 * Runs a load through the real scheduler and the real block pool on a clock of its own: each step takes what the model of
 * step times says. Nothing waits, so that hours of serving pass in moments.
 */
import { PagedCache } from '../engine/kv/paged-cache.js';
import type { Seconds } from '../engine/protocol.js';
import type { SchedulerLimits } from '../engine/scheduler/limits.js';
import type { QueueLimits } from '../engine/scheduler/queue-limits.js';
import { queueFull } from '../engine/scheduler/queue-limits.js';
import { refusal } from '../engine/scheduler/refusal.js';
import { NO_TOKEN, Scheduler } from '../engine/scheduler/scheduler.js';
import { Sequence } from '../engine/sequence.js';
import { type StepTimes, stepTime } from './step-time.js';
import { Tally } from './tally.js';
import { Workload, type WorkloadOptions } from './workload.js';

export interface SimulationOptions extends Omit<SchedulerLimits, 'maxScoredTokens'>, Omit<QueueLimits, 'queueTimeout'> {
  readonly workload: WorkloadOptions;
  readonly stepTimes: StepTimes;
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly enablePrefixCaching: boolean;
  /** Called now and then with the number of requests that have ended. */
  readonly onProgress?: (ended: number) => void;
}

const STEPS_A_REPORT = 1000;

export function simulate(options: SimulationOptions): Tally {
  return new Simulation(options).run();
}

class Simulation {
  readonly #options: SimulationOptions;
  readonly #workload: Workload;
  readonly #cache: PagedCache;
  readonly #scheduler: Scheduler;
  readonly #tally: Tally;
  #now: Seconds = 0;
  #order = 0;
  #sampled = new Int32Array(64);

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#workload = new Workload(options.workload);
    const prefixes = options.enablePrefixCaching ? { model: 'simulated' } : undefined;
    this.#cache = new PagedCache(options.numBlocks, options.blockSize, prefixes);
    this.#scheduler = new Scheduler(this.#cache, {
      ...options,
      mixedSteps: options.mixedSteps ?? options.stepTimes.mixedSteps,
      maxScoredTokens: options.maxNumBatchedTokens,
    });
    this.#tally = new Tally(options.workload.requests);
  }

  run(): Tally {
    const { onProgress } = this.#options;
    for (let step = 0; ; step++) {
      this.#arrive();
      if (this.#scheduler.hasWork) this.#step();
      else if (this.#workload.next === undefined) break;
      else this.#now = Math.max(this.#now, this.#workload.next);
      if (step % STEPS_A_REPORT === 0) onProgress?.(this.#tally.ended);
    }
    this.#tally.close(this.#now, this.#scheduler);
    return this.#tally;
  }

  #arrive(): void {
    for (let next = this.#workload.next; next !== undefined && next <= this.#now; next = this.#workload.next) {
      const request = this.#workload.take();
      const { maxModelLen, queueTimeout } = this.#options.workload;
      const refused =
        refusal(request, maxModelLen, this.#cache) ??
        queueFull(request.prompt.length, this.#scheduler.queue, this.#options);
      if (refused !== undefined) {
        this.#tally.refused++;
        this.#workload.ended(this.#now);
        continue;
      }
      const sequence = new Sequence(request, 0, this.#order++, maxModelLen);
      if (queueTimeout !== undefined) sequence.deadline = request.arrival + queueTimeout;
      this.#scheduler.add(sequence);
    }
  }

  #step(): void {
    const scheduler = this.#scheduler;
    for (const sequence of scheduler.overdue(this.#now)) {
      scheduler.finish(sequence, 'error');
      this.#tally.overdue++;
      this.#workload.ended(this.#now);
    }
    const plan = scheduler.schedule(this.#now);
    const { chunks } = plan;
    if (chunks.length === 0) {
      scheduler.commit(plan, []);
      const { idleUntil } = scheduler;
      if (idleUntil !== undefined)
        this.#now = Math.max(this.#now, Math.min(idleUntil, this.#workload.next ?? Infinity));
      return;
    }
    const seconds = stepTime(plan, this.#options.stepTimes);
    this.#tally.step(seconds, plan.prefillTokens, plan.decodeTokens, scheduler, this.#cache);
    this.#now += seconds;
    if (this.#sampled.length < chunks.length) this.#sampled = new Int32Array(chunks.length * 2);
    for (let i = 0; i < chunks.length; i++) this.#sampled[i] = chunks[i]!.samples ? i & 1023 : NO_TOKEN;
    scheduler.commit(plan, this.#sampled);
    for (const { sequence, samples } of chunks) {
      if (samples) sequence.firstToken ??= this.#now;
      if (sequence.state !== 'finished') continue;
      this.#tally.end(sequence, this.#now);
      this.#workload.ended(this.#now);
    }
  }
}
