/** The load generator's own delay, so that a busy client is not taken for a slow server. */
import { type EventLoopUtilization, type IntervalHistogram, monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { type Statistics, statistics } from './stats.js';
import type { Milliseconds } from './units.js';

export interface OwnDelay {
  /** From the time a request was to be sent to the time it was. */
  readonly send: Statistics | undefined;
  /** How late the event loop came to its timers: an upper bound for how late an arrival was seen. */
  readonly loop: { readonly mean: Milliseconds; readonly p99: Milliseconds; readonly max: Milliseconds };
  /** Share of the time in which the event loop was busy, 0..1. */
  readonly utilization: number;
}

/** The interval at which the event loop is looked at; Node counts it as part of each delay. */
const RESOLUTION_MS = 5;

export class OwnDelayMonitor {
  readonly #delays: IntervalHistogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  #utilization: EventLoopUtilization | undefined;

  start(): void {
    this.#utilization = performance.eventLoopUtilization();
    this.#delays.enable();
  }

  /** @param sendDelays of every request, in milliseconds */
  stop(sendDelays: Iterable<Milliseconds>): OwnDelay {
    this.#delays.disable();
    const delay = (nanoseconds: number): Milliseconds => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
    const seen = this.#delays.count > 0;
    return {
      send: statistics(sendDelays),
      loop: {
        mean: seen ? delay(this.#delays.mean) : 0,
        p99: seen ? delay(this.#delays.percentile(99)) : 0,
        max: seen ? delay(this.#delays.max) : 0,
      },
      utilization: performance.eventLoopUtilization(this.#utilization).utilization,
    };
  }
}

const LATE_SEND_MS = 10;
const LATE_LOOP_MS = 5;
/** Of the latency between tokens: a delay below this share of it changes no figure that matters. */
const LATE_LOOP_SHARE = 0.1;
const BUSY_SHARE = 0.8;

/**
 * One line each for what makes the client's own delay part of the figures; none when it does not matter.
 * @param typical the median of the shortest latency measured, which the delay is held against
 */
export function ownDelayWarnings(own: OwnDelay, typical: Milliseconds = 0): string[] {
  const warnings: string[] = [];
  const send = own.send?.p99 ?? 0;
  if (send > LATE_SEND_MS) {
    warnings.push(`requests left up to ${send.toFixed(1)} ms late (p99): the load was not the one asked for`);
  }
  if (own.loop.p99 > LATE_LOOP_MS && own.loop.p99 > LATE_LOOP_SHARE * typical) {
    warnings.push(`this client was up to ${own.loop.p99.toFixed(1)} ms late (p99): latencies include its own delay`);
  }
  if (own.utilization > BUSY_SHARE) {
    warnings.push(`this client was busy ${(own.utilization * 100).toFixed(0)} % of the time: it may be the bottleneck`);
  }
  return warnings;
}
