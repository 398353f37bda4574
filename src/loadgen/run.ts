/** Offers one load to the server, and collects a record of every request. */
import { setMaxListeners } from 'node:events';
import type { Agent } from 'node:http';
import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { exchange } from './exchange.js';
import { arrivalTimes, type Load, loadLabel } from './load.js';
import { type OwnDelay, OwnDelayMonitor } from './own-delay.js';
import { randomSource } from './random.js';
import { makeRecord, type RequestRecord } from './record.js';
import type { Target } from './target.js';
import type { Milliseconds } from './units.js';
import type { Workload, WorkloadRequest } from './workload.js';

export interface RunOptions {
  readonly target: Target;
  readonly agent: Agent;
  readonly workload: Workload;
  readonly seed: number;
  /** The load ends after so many requests, or sends none after so long. */
  readonly limit: { readonly requests: number } | { readonly duration: Milliseconds };
  readonly timeout: Milliseconds;
  /** Stops sending and gives up what is on its way. */
  readonly signal: AbortSignal;
  readonly onRecord?: (record: RequestRecord) => void;
}

export interface LoadRun {
  readonly load: Load;
  /** In the order in which the requests ended. */
  readonly records: readonly RequestRecord[];
  readonly own: OwnDelay;
  /** Wall-clock time at the start, in milliseconds since 1970. */
  readonly startedAt: number;
}

export async function runLoad(load: Load, options: RunOptions, phase = loadLabel(load)): Promise<LoadRun> {
  const run = new Run(options, phase);
  const monitor = new OwnDelayMonitor();
  monitor.start();
  await (load.kind === 'closed' ? run.closed(load.concurrency) : run.open(load));
  const own = monitor.stop(run.records.map((record) => record.sent - record.planned));
  return { load, records: run.records, own, startedAt: performance.timeOrigin + run.start };
}

class Run {
  readonly records: RequestRecord[] = [];
  readonly start: Milliseconds;
  readonly #options: RunOptions;
  readonly #phase: string;
  readonly #prepared: WorkloadRequest[];
  #next = 0;

  constructor(options: RunOptions, phase: string) {
    this.#options = options;
    this.#phase = phase;
    setMaxListeners(0, options.signal);
    const count = 'requests' in options.limit ? options.limit.requests : 0;
    this.#prepared = Array.from({ length: count }, (_, index) => options.workload.request(phase, index));
    this.start = performance.now();
  }

  async closed(concurrency: number): Promise<void> {
    const client = async (): Promise<void> => {
      for (let plannedAt = this.start; this.#mayStart(plannedAt); plannedAt = performance.now()) {
        await this.#send(plannedAt);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, client));
  }

  async open(load: Extract<Load, { kind: 'open' }>): Promise<void> {
    const arrivals = arrivalTimes(load, randomSource(this.#options.seed, this.#phase, 'arrivals'));
    const inFlight: Promise<void>[] = [];
    for (const arrival of arrivals) {
      const plannedAt = this.start + arrival;
      if (!this.#mayStart(plannedAt)) break;
      await this.#until(plannedAt);
      if (this.#options.signal.aborted) break;
      inFlight.push(this.#send(plannedAt));
    }
    await Promise.all(inFlight);
  }

  #mayStart(plannedAt: Milliseconds): boolean {
    const { limit, signal } = this.#options;
    if (signal.aborted) return false;
    return 'requests' in limit ? this.#next < limit.requests : plannedAt - this.start < limit.duration;
  }

  /** Timers count whole milliseconds and may be early by a part of one; the rest is waited for turn by turn. */
  async #until(time: Milliseconds): Promise<void> {
    const wait = Math.floor(time - performance.now());
    if (wait > 0) await sleep(wait, undefined, { signal: this.#options.signal }).catch(() => undefined);
    while (performance.now() < time && !this.#options.signal.aborted) await nextTurn();
  }

  async #send(plannedAt: Milliseconds): Promise<void> {
    const { target, workload, agent, timeout, signal, onRecord } = this.#options;
    const index = this.#next++;
    const request = this.#prepared[index] ?? workload.request(this.#phase, index);
    const result = await exchange(target, request, { agent, timeout, signal });
    const record = makeRecord(result, { index, start: this.start, plannedAt, maxTokens: request.maxTokens });
    this.records.push(record);
    onRecord?.(record);
  }
}
