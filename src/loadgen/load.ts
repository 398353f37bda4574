/** How requests are offered to the server: a closed loop of so many at once, or an open loop of so many a second. */
import { randomExponential, randomGamma } from 'd3-random';
import { UserError } from '../errors.js';
import type { RandomSource } from './random.js';
import type { Milliseconds } from './units.js';

/** Each of `concurrency` clients sends its next request when its last one has ended. */
export interface ClosedLoad {
  readonly kind: 'closed';
  readonly concurrency: number;
}

/** Requests are sent at times of their own, however slow the server is. */
export interface OpenLoad {
  readonly kind: 'open';
  /** Requests a second; Infinity sends all of them at once. */
  readonly rate: number;
  readonly arrival: ArrivalProcess;
}

/**
 * `burstiness` is the shape of the gamma distribution of the gaps between requests, as in `vllm bench serve`: 1 is a
 * Poisson process, less comes in bursts, more is steadier; the coefficient of variation is 1 / sqrt(burstiness).
 */
export type ArrivalProcess = { readonly kind: 'poisson' } | { readonly kind: 'bursty'; readonly burstiness: number };

export type Load = ClosedLoad | OpenLoad;

export function loadLabel(load: Load): string {
  if (load.kind === 'closed') return `concurrency ${load.concurrency}`;
  if (load.rate === Number.POSITIVE_INFINITY) return 'all at once';
  const { arrival } = load;
  return `${load.rate} req/s ${arrival.kind === 'poisson' ? 'poisson' : `bursty ${arrival.burstiness}`}`;
}

/** @throws UserError unless the text is a list of positive integers with commas between */
export function parseConcurrencies(text: string): ClosedLoad[] {
  return text.split(',').map((item) => {
    const concurrency = Number(item);
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw new UserError(`concurrency "${item}" is not a positive whole number; write for example 1,4,16`);
    }
    return { kind: 'closed', concurrency };
  });
}

/** @throws UserError unless the text is a list of positive numbers, or `inf`, with commas between */
export function parseRates(text: string, arrival: ArrivalProcess): OpenLoad[] {
  return text.split(',').map((item) => {
    const rate = item.trim() === 'inf' ? Number.POSITIVE_INFINITY : Number(item);
    if (!(rate > 0)) {
      throw new UserError(`request rate "${item}" is not a positive number; write for example 0.5,2 or inf`);
    }
    return { kind: 'open', rate, arrival };
  });
}

/**
 * The times of arrival after the start of the load, rising without end; the first request arrives after the first gap.
 */
export function* arrivalTimes(load: OpenLoad, random: RandomSource): Generator<Milliseconds, never> {
  const gap = gapSource(load, random);
  for (let at = gap(); ; at += gap()) yield at;
}

function gapSource({ rate, arrival }: OpenLoad, random: RandomSource): () => Milliseconds {
  if (rate === Number.POSITIVE_INFINITY) return () => 0;
  const perMillisecond = rate / 1000;
  if (arrival.kind === 'poisson') return randomExponential.source(random)(perMillisecond);
  return randomGamma.source(random)(arrival.burstiness, 1 / (perMillisecond * arrival.burstiness));
}
