/** Makes metrics that carry the labels of this server, in one registry; values are read when they are scraped. */
import { Counter, Gauge, type Registry } from 'prom-client';
import { BucketHistogram, type Labels } from './histogram.js';

export class MetricSet {
  readonly #registry: Registry;
  readonly #labels: Labels;

  /** @param labels on every metric; never anything that a request brought */
  constructor(registry: Registry, labels: Labels) {
    this.#registry = registry;
    this.#labels = labels;
  }

  gauge(name: string, help: string, read: () => number): void {
    const labels = this.#labels;
    new Gauge({
      name,
      help,
      labelNames: Object.keys(labels),
      registers: [this.#registry],
      collect() {
        this.set(labels, read());
      },
    });
  }

  /** A gauge of 1 whose labels are what it tells. */
  info(name: string, help: string, told: Labels): void {
    const labels = { ...this.#labels, ...told };
    new Gauge({ name, help, labelNames: Object.keys(labels), registers: [this.#registry] }).set(labels, 1);
  }

  /** A counter whose total is kept elsewhere. */
  total(name: string, help: string, read: () => number): void {
    this.#counter(name, help, [], () => [[{}, read()]]);
  }

  /** One whose totals are kept elsewhere, by the value of a label. */
  totals(name: string, help: string, label: string, read: () => Readonly<Record<string, number>>): void {
    this.#counter(name, help, [label], () =>
      Object.entries(read()).map(([value, total]) => [{ [label]: value }, total]),
    );
  }

  /** One that is counted up where things happen, and seldom. */
  counter<Name extends string>(name: string, help: string, labelNames: readonly Name[]) {
    const labels = this.#labels;
    const names = [...Object.keys(labels), ...labelNames];
    const counter = new Counter({ name, help, labelNames: names, registers: [this.#registry] });
    return (told: Readonly<Record<Name, string>>) => counter.inc({ ...labels, ...told });
  }

  #counter(name: string, help: string, labelNames: readonly string[], read: () => [Labels, number][]): void {
    const labels = this.#labels;
    new Counter({
      name,
      help,
      labelNames: [...Object.keys(labels), ...labelNames],
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const [told, total] of read()) this.inc({ ...labels, ...told }, total);
      },
    });
  }

  histogram(name: string, help: string, buckets: readonly number[]): BucketHistogram {
    return new BucketHistogram(this.#registry, { name, help, buckets, labels: this.#labels });
  }
}
