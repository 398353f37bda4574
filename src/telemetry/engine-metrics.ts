/** Metrics of the engine: its state after the last step, each step, and where finished sequences spent their time. */
import type { ChoiceOutput, ChoiceTimings, EngineInfo, EngineStats, Seconds } from '../engine/protocol.js';
import { batchSizeBuckets, requestTimeBuckets, stepTimeBuckets, stepTokenBuckets } from './buckets.js';
import type { BucketHistogram } from './histogram.js';
import type { MetricSet } from './metric-set.js';

export class EngineMetrics {
  readonly #metrics: MetricSet;
  readonly #stepTokens: BucketHistogram;
  readonly #stepSequences: BucketHistogram;
  readonly #stepTime: BucketHistogram;
  readonly #queueTime: BucketHistogram;
  readonly #prefillTime: BucketHistogram;
  readonly #decodeTime: BucketHistogram;
  readonly #inferenceTime: BucketHistogram;
  readonly #rows = { prefill: 0, decode: 0 };
  readonly #phases = { schedule: 0, model: 0, sample: 0 };
  #last: EngineStats | undefined;
  #info: EngineInfo | undefined;

  constructor(metrics: MetricSet) {
    this.#metrics = metrics;
    const last = (read: (stats: EngineStats) => number) => () => (this.#last === undefined ? 0 : read(this.#last));

    metrics.gauge(
      'vllm:num_requests_running',
      'Sequences that run.',
      last((stats) => stats.running),
    );
    metrics.gauge(
      'vllm:num_requests_waiting',
      'Sequences that wait for their first step, or for another after preemption.',
      last((stats) => stats.waiting),
    );
    metrics.gauge(
      'vllm:kv_cache_usage_perc',
      'Share of the cache blocks that sequences hold, 0 to 1.',
      last((stats) => share(stats.blocksUsed, stats.blocksTotal)),
    );
    metrics.gauge(
      'sluice_kv_cache_waste_ratio',
      'Share of the slots in held blocks that hold no token, 0 to 1.',
      last((stats) => share(stats.emptySlots, stats.blocksUsed * (this.#info?.blockSize ?? 0))),
    );
    metrics.total(
      'vllm:num_preemptions_total',
      'Times that a sequence lost its blocks and was computed again.',
      last((stats) => stats.preemptions),
    );
    metrics.total(
      'vllm:prefix_cache_queries_total',
      'Prompt tokens looked up in the prefix cache.',
      last((stats) => stats.prefixQueries),
    );
    metrics.total(
      'vllm:prefix_cache_hits_total',
      'Prompt tokens found in the prefix cache.',
      last((stats) => stats.prefixHits),
    );
    metrics.total(
      'sluice_steps_total',
      'Steps of the engine.',
      last((stats) => stats.steps),
    );
    metrics.totals('sluice_step_rows_total', 'Tokens computed, by what for.', 'kind', () => this.#rows);
    metrics.totals('sluice_step_seconds_total', 'Seconds spent in steps, by part.', 'part', () => this.#phases);

    this.#stepTokens = metrics.histogram('vllm:iteration_tokens_total', 'Tokens computed in a step.', stepTokenBuckets);
    this.#stepSequences = metrics.histogram('sluice_step_sequences', 'Sequences of a step.', batchSizeBuckets);
    this.#stepTime = metrics.histogram('sluice_step_time_seconds', 'Seconds a step took.', stepTimeBuckets);
    const stage = (name: string, help: string) =>
      metrics.histogram(`vllm:request_${name}_time_seconds`, help, requestTimeBuckets);
    this.#queueTime = stage('queue', 'Seconds a sequence waited for its first step.');
    this.#prefillTime = stage('prefill', 'Seconds from the first step to the first token.');
    this.#decodeTime = stage('decode', 'Seconds from the first token to the end.');
    this.#inferenceTime = stage('inference', 'Seconds from the first step to the end.');
  }

  /** Once the model is loaded. */
  ready(info: EngineInfo): void {
    this.#info = info;
    this.#metrics.info('vllm:cache_config_info', 'The paged cache.', {
      block_size: String(info.blockSize),
      cache_dtype: info.kvCacheDtype,
      num_gpu_blocks: String(info.numBlocks),
    });
  }

  /** After every step, and when sequences ended without one. */
  step(stats: EngineStats, outputs: readonly ChoiceOutput[]): void {
    if (stats.steps !== (this.#last?.steps ?? 0)) this.#observe(stats);
    this.#last = stats;
    for (const { timings } of outputs) {
      if (timings !== undefined) this.#finished(timings);
    }
  }

  #observe(stats: EngineStats): void {
    this.#stepTokens.observe(stats.prefillTokens + stats.decodeTokens);
    this.#stepSequences.observe(stats.sequences);
    this.#stepTime.observe(stats.scheduleTime + stats.modelTime + stats.sampleTime);
    this.#rows.prefill += stats.prefillTokens;
    this.#rows.decode += stats.decodeTokens;
    this.#phases.schedule += stats.scheduleTime;
    this.#phases.model += stats.modelTime;
    this.#phases.sample += stats.sampleTime;
  }

  /** A stage that a sequence never reached is not observed. */
  #finished({ arrival, firstScheduled, firstToken, finished }: ChoiceTimings): void {
    this.#queueTime.observe(span(arrival, firstScheduled ?? finished));
    if (firstScheduled === undefined) return;
    this.#inferenceTime.observe(span(firstScheduled, finished));
    if (firstToken === undefined) return;
    this.#prefillTime.observe(span(firstScheduled, firstToken));
    this.#decodeTime.observe(span(firstToken, finished));
  }
}

function share(part: number, whole: number): number {
  return whole > 0 ? part / whole : 0;
}

/** Threads' clocks agree to some microseconds only, and no time is negative. */
function span(from: Seconds, to: Seconds): Seconds {
  return Math.max(0, to - from);
}
