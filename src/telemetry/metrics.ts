/**
 * Everything under /metrics. It is fed once a step by the engine's client, by each request's meter, and once an HTTP
 * request; what is costly happens when it is scraped.
 */
import { Registry } from 'prom-client';
import type { ChoiceOutput, EngineInfo, EngineStats, Seconds } from '../engine/protocol.js';
import { loopDelayBuckets } from './buckets.js';
import { EngineMetrics } from './engine-metrics.js';
import { observeLoopDelay } from './loop-delay.js';
import { MetricSet } from './metric-set.js';
import { addProcessMetrics } from './process-metrics.js';
import { type RequestMeter, RequestMetrics } from './request-metrics.js';
import type { RequestRecord } from './request-record.js';

export interface MetricsOptions {
  /** The name that the model is served under. */
  readonly model: string;
  /** Seconds for which the engine has owed a step; 0 while none is due. */
  readonly stepOverdue: () => Seconds;
}

/** Others are counted as one, so that nobody can make up series. */
const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

export class ServerMetrics {
  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE;
  readonly #registry = new Registry();
  readonly #metrics: MetricSet;
  readonly #engine: EngineMetrics;
  readonly #countHttp: (labels: Readonly<Record<'handler' | 'method' | 'status', string>>) => void;
  readonly #stopLoopDelay: () => void;
  #requests: RequestMetrics | undefined;

  constructor({ model, stepOverdue }: MetricsOptions) {
    const metrics = new MetricSet(this.#registry, { model_name: model, engine: '0' });
    this.#metrics = metrics;
    this.#engine = new EngineMetrics(metrics);
    metrics.gauge('sluice_step_overdue_seconds', 'For how long a step has been due; 0 without work.', stepOverdue);
    const server = new MetricSet(this.#registry, {});
    const count = ['handler', 'method', 'status'] as const;
    this.#countHttp = server.counter('http_requests_total', 'HTTP requests answered.', count);
    this.#stopLoopDelay = observeLoopDelay(
      server.histogram('sluice_event_loop_delay_seconds', 'Seconds that the event loop is late.', loopDelayBuckets),
    );
    addProcessMetrics(server);
  }

  /** Once the model is loaded. */
  ready(info: EngineInfo): void {
    if (this.#requests !== undefined) return;
    this.#requests = new RequestMetrics(this.#metrics, info.maxModelLen);
    this.#engine.ready(info);
  }

  /** After every step, with all its outputs. */
  step(stats: EngineStats, outputs: readonly ChoiceOutput[]): void {
    this.#engine.step(stats, outputs);
  }

  /**
   * Begins to follow a choice; undefined while there is no model.
   * @param arrival of its HTTP request, `performance.now()`
   */
  begin(arrival: number, promptTokens: number): RequestMeter | undefined {
    return this.#requests?.begin(arrival, promptTokens);
  }

  /** At the end of an HTTP request. */
  http(record: RequestRecord): void {
    const method = knownMethods.has(record.method) ? record.method : 'other';
    this.#countHttp({ handler: record.handler, method, status: String(record.status) });
  }

  /** In Prometheus' text format. */
  text(): Promise<string> {
    return this.#registry.metrics();
  }

  /** Stops measuring the event loop. */
  close(): void {
    this.#stopLoopDelay();
  }
}
