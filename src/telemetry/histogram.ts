/**
 * A histogram that costs a few nanoseconds an observation, and the same for many equal ones: prom-client's own looks its
 * labels up each time, which is too much for what is observed once a step for each sequence. It is registered with
 * prom-client, which asks it for its values when they are scraped.
 */
import type { Metric, Registry } from 'prom-client';

export type Labels = Readonly<Record<string, string>>;

export interface HistogramOptions {
  readonly name: string;
  readonly help: string;
  /** Upper bounds, inclusive, rising. */
  readonly buckets: readonly number[];
  readonly labels: Labels;
}

interface Sample {
  readonly metricName: string;
  readonly labels: Labels;
  readonly value: number;
}

export class BucketHistogram {
  readonly name: string;
  readonly #options: HistogramOptions;
  readonly #bounds: Float64Array;
  /** Observations of each bucket alone; the last are those beyond every bound. */
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(registry: Registry, options: HistogramOptions) {
    this.name = options.name;
    this.#options = options;
    this.#bounds = Float64Array.from(options.buckets);
    this.#counts = new Float64Array(options.buckets.length + 1);
    // The registry reads `name` and calls `get`; its type asks for one of prom-client's own classes.
    registry.registerMetric(this as unknown as Metric);
  }

  /** @param times how many observations of this value there are */
  observe(value: number, times = 1): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > this.#bounds[bucket]!) bucket++;
    this.#counts[bucket]! += times;
    this.#sum += value * times;
  }

  /** What prom-client writes out: cumulative buckets, sum and count. */
  async get() {
    const { name, help, labels } = this.#options;
    const values: Sample[] = [];
    let count = 0;
    for (const [bucket, observations] of this.#counts.entries()) {
      count += observations;
      const le = String(this.#bounds[bucket] ?? '+Inf');
      values.push({ metricName: `${name}_bucket`, labels: { le, ...labels }, value: count });
    }
    values.push({ metricName: `${name}_sum`, labels, value: this.#sum });
    values.push({ metricName: `${name}_count`, labels, value: count });
    return { name, help, type: 'histogram', aggregator: 'sum', values };
  }
}
