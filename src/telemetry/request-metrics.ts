/**
 * Metrics of requests as their clients see them, from the arrival of the HTTP request on. As in vLLM each choice counts as
 * a request of its own. Every one that is begun is ended once, so the per-request histograms have the same count.
 */
import { firstTokenBuckets, lengthBuckets, requestTimeBuckets, tokenGapBuckets } from './buckets.js';
import type { BucketHistogram } from './histogram.js';
import type { MetricSet } from './metric-set.js';

export const finishedReasons = ['stop', 'length', 'abort', 'error'] as const;
export type FinishedReason = (typeof finishedReasons)[number];

/** Milliseconds of `performance.now()`. */
type Milliseconds = number;

export class RequestMetrics {
  readonly totals = { promptTokens: 0, generationTokens: 0 };
  readonly finished: Record<FinishedReason, number> = { stop: 0, length: 0, abort: 0, error: 0 };
  readonly firstToken: BucketHistogram;
  readonly tokenGap: BucketHistogram;
  readonly timePerToken: BucketHistogram;
  readonly latency: BucketHistogram;
  readonly promptTokens: BucketHistogram;
  readonly generationTokens: BucketHistogram;

  /** @param maxModelLen longest sequence; bounds the buckets of lengths */
  constructor(metrics: MetricSet, maxModelLen: number) {
    const { totals } = this;
    metrics.total('vllm:prompt_tokens_total', 'Prompt tokens, once they are computed.', () => totals.promptTokens);
    metrics.total('vllm:generation_tokens_total', 'Tokens generated.', () => totals.generationTokens);
    metrics.totals(
      'vllm:request_success_total',
      'Requests that ended, by why.',
      'finished_reason',
      () => this.finished,
    );
    const histogram = metrics.histogram.bind(metrics);
    this.firstToken = histogram('vllm:time_to_first_token_seconds', 'Seconds to the first token.', firstTokenBuckets);
    this.tokenGap = histogram('vllm:inter_token_latency_seconds', 'Seconds between tokens.', tokenGapBuckets);
    this.timePerToken = histogram(
      'vllm:request_time_per_output_token_seconds',
      'Mean seconds a token, after the first, of requests with two or more.',
      tokenGapBuckets,
    );
    this.latency = histogram(
      'vllm:e2e_request_latency_seconds',
      'Seconds from arrival to the end.',
      requestTimeBuckets,
    );
    const lengths = lengthBuckets(maxModelLen);
    this.promptTokens = histogram('vllm:request_prompt_tokens', 'Tokens of the prompt.', lengths);
    this.generationTokens = histogram('vllm:request_generation_tokens', 'Tokens generated for a request.', lengths);
  }

  /** @param arrival of the HTTP request */
  begin(arrival: Milliseconds, promptTokens: number): RequestMeter {
    return new RequestMeter(this, arrival, promptTokens);
  }
}

/** Follows one choice from its arrival to its end. */
export class RequestMeter {
  #tokens = 0;
  #firstAt: Milliseconds = 0;
  #lastAt: Milliseconds = 0;
  #promptComputed = false;
  #ended = false;

  constructor(
    private readonly metrics: RequestMetrics,
    private readonly arrival: Milliseconds,
    private readonly promptTokens: number,
  ) {}

  /** An output came, `tokens` of it at once: each of them took its share of the time since the last. */
  output(tokens: number, now: Milliseconds): void {
    if (this.#ended) return;
    const { metrics } = this;
    if (!this.#promptComputed) {
      this.#promptComputed = true;
      metrics.totals.promptTokens += this.promptTokens;
    }
    if (tokens === 0) return;
    if (this.#tokens === 0) {
      this.#firstAt = now;
      metrics.firstToken.observe((now - this.arrival) / 1000);
    } else {
      metrics.tokenGap.observe((now - this.#lastAt) / 1000 / tokens, tokens);
    }
    this.#lastAt = now;
    this.#tokens += tokens;
    metrics.totals.generationTokens += tokens;
  }

  /** Only the first call counts. */
  end(reason: FinishedReason, now: Milliseconds): void {
    if (this.#ended) return;
    this.#ended = true;
    const { metrics } = this;
    metrics.finished[reason]++;
    metrics.latency.observe((now - this.arrival) / 1000);
    metrics.promptTokens.observe(this.promptTokens);
    metrics.generationTokens.observe(this.#tokens);
    if (this.#tokens > 1) metrics.timePerToken.observe((this.#lastAt - this.#firstAt) / 1000 / (this.#tokens - 1));
  }
}
