/** Statistics of samples: mean and percentiles, and histograms for the report. */
import { bin, mean, quantileSorted } from 'd3-array';

export interface Statistics {
  readonly count: number;
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p95: number;
  readonly p99: number;
  readonly min: number;
  readonly max: number;
}

/**
 * Percentiles are interpolated between the samples next to them (R-7, as NumPy's default).
 * @returns undefined when there are no samples
 */
export function statistics(samples: Iterable<number>): Statistics | undefined {
  const sorted = [...Float64Array.from(samples).sort()];
  if (sorted.length === 0) return undefined;
  const quantile = (share: number): number => quantileSorted(sorted, share)!;
  return {
    count: sorted.length,
    mean: mean(sorted)!,
    p50: quantile(0.5),
    p90: quantile(0.9),
    p95: quantile(0.95),
    p99: quantile(0.99),
    min: sorted[0]!,
    max: sorted[sorted.length - 1]!,
  };
}

export interface HistogramBin {
  readonly low: number;
  readonly high: number;
  readonly count: number;
}

/** About `bins` bins of equal width over [low, high]; samples outside are not counted. */
export function histogram(samples: readonly number[], low: number, high: number, bins: number): HistogramBin[] {
  const width = (high - low) / bins;
  const thresholds = Array.from({ length: bins - 1 }, (_, index) => low + width * (index + 1));
  return bin()
    .domain([low, high])
    .thresholds(thresholds)(samples)
    .map((group) => ({ low: group.x0!, high: group.x1!, count: group.length }));
}
