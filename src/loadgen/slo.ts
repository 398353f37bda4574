/** Service level objectives: what a request must keep to count towards goodput. */
import { UserError } from '../errors.js';
import { type Milliseconds, parseDuration } from './units.js';

export type SloMetric = 'ttft' | 'tpot' | 'e2e';
export type Slo = Readonly<Partial<Record<SloMetric, Milliseconds>>>;

const METRICS: ReadonlySet<string> = new Set<SloMetric>(['ttft', 'tpot', 'e2e']);

/**
 * Reads `ttft:200ms,tpot:50ms`.
 * @throws UserError that names the part at fault
 */
export function parseSlo(text: string): Slo {
  const slo: Partial<Record<SloMetric, Milliseconds>> = {};
  for (const part of text.split(',')) {
    const [metric = '', limit = ''] = part.trim().split(':');
    if (!METRICS.has(metric)) {
      throw new UserError(`objective "${part}": not one of ttft, tpot, e2e; write for example ttft:200ms,tpot:50ms`);
    }
    slo[metric as SloMetric] = parseDuration(limit, 'ms');
  }
  return slo;
}

/** A latency that a request does not have (no TPOT with one token) is kept. */
export function meetsSlo(slo: Slo, latencies: Readonly<Partial<Record<SloMetric, Milliseconds | undefined>>>): boolean {
  return Object.entries(slo).every(([metric, limit]) => (latencies[metric as SloMetric] ?? 0) <= limit);
}
