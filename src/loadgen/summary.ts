/** The figures of one load, from the records of its requests. */
import type { FailureKind } from './failure.js';
import { type OwnDelay, ownDelayWarnings } from './own-delay.js';
import { type Answer, interTokenLatencies, type RequestRecord, timePerOutputToken } from './record.js';
import { meetsSlo, type Slo } from './slo.js';
import { type Statistics, statistics } from './stats.js';
import type { Milliseconds } from './units.js';

export const LATENCIES = ['ttft', 'tpot', 'itl', 'e2e'] as const;
export type Latency = (typeof LATENCIES)[number];

export interface ErrorCount {
  readonly kind: FailureKind;
  readonly count: number;
  /** The message of the first one. */
  readonly example: string;
}

export interface LoadSummary {
  readonly completed: number;
  readonly failed: number;
  /** Given up by the user; counted in nothing else. */
  readonly cancelled: number;
  readonly errors: readonly ErrorCount[];
  /** From the first request's sending to the last one's end. */
  readonly duration: Milliseconds;
  /** Completed requests a second; the tokens of failed requests count in no throughput. */
  readonly requestThroughput: number;
  /** Tokens a second. */
  readonly outputThroughput: number;
  readonly totalThroughput: number;
  readonly outputTokens: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  /** In milliseconds; undefined where no completed request has the figure. */
  readonly latencies: Readonly<Record<Latency, Statistics | undefined>>;
  /** Completed requests that keep the objective: a second, and as a share of all that were not cancelled. */
  readonly goodput: { readonly slo: Slo; readonly throughput: number; readonly share: number } | undefined;
  readonly own: OwnDelay;
  readonly warnings: readonly string[];
}

export function latencySamples(answers: readonly Answer[]): Record<Latency, Milliseconds[]> {
  return {
    ttft: answers.map((answer) => answer.ttft),
    tpot: answers.map(timePerOutputToken).filter((value) => value !== undefined),
    itl: answers.flatMap(interTokenLatencies),
    e2e: answers.map((answer) => answer.e2e),
  };
}

export function summarize(records: readonly RequestRecord[], own: OwnDelay, slo?: Slo): LoadSummary {
  const counted = records.filter((record) => record.outcome !== 'cancelled');
  const answers = counted.map((record) => record.answer).filter((answer) => answer !== undefined);
  const duration = counted.reduce((end, { end: at }) => Math.max(end, at), 0) - firstSent(counted);
  const perSecond = (amount: number): number => (duration > 0 ? (amount * 1000) / duration : 0);
  const outputTokens = sum(answers, (answer) => answer.outputTokens);
  const promptTokens = sum(answers, (answer) => answer.promptTokens ?? 0);
  const samples = latencySamples(answers);
  const latencies = {
    ttft: statistics(samples.ttft),
    tpot: statistics(samples.tpot),
    itl: statistics(samples.itl),
    e2e: statistics(samples.e2e),
  };
  return {
    completed: answers.length,
    failed: counted.length - answers.length,
    cancelled: records.length - counted.length,
    errors: countErrors(counted),
    duration,
    requestThroughput: perSecond(answers.length),
    outputThroughput: perSecond(outputTokens),
    totalThroughput: perSecond(outputTokens + promptTokens),
    outputTokens,
    promptTokens,
    cachedTokens: sum(answers, (answer) => answer.cachedTokens ?? 0),
    latencies,
    goodput: slo === undefined ? undefined : goodput(slo, answers, counted.length, perSecond),
    own,
    warnings: [...ownDelayWarnings(own, latencies.itl?.p50 ?? latencies.ttft?.p50), ...countingWarnings(answers)],
  };
}

function firstSent(records: readonly RequestRecord[]): Milliseconds {
  return records.length === 0
    ? 0
    : records.reduce((first, { sent }) => Math.min(first, sent), Number.POSITIVE_INFINITY);
}

function goodput(slo: Slo, answers: readonly Answer[], counted: number, perSecond: (amount: number) => number) {
  const good = answers.filter((answer) =>
    meetsSlo(slo, { ttft: answer.ttft, tpot: timePerOutputToken(answer), e2e: answer.e2e }),
  ).length;
  return { slo, throughput: perSecond(good), share: counted === 0 ? 0 : good / counted };
}

function countErrors(records: readonly RequestRecord[]): ErrorCount[] {
  const failures = records.map((record) => record.failure).filter((failure) => failure !== undefined);
  return [...new Set(failures.map((failure) => failure.kind))].map((kind) => {
    const same = failures.filter((failure) => failure.kind === kind);
    return { kind, count: same.length, example: same[0]!.message };
  });
}

/** What could not be counted as it should be, so that a figure is not taken for more than it is. */
function countingWarnings(answers: readonly Answer[]): string[] {
  const warnings: string[] = [];
  const uncounted = answers.filter((answer) => answer.outputTokensFrom === 'chunks');
  if (uncounted.some((answer) => answer.chunkTokens === 'assumed')) {
    warnings.push(`${uncounted.length} answers came without usage: their tokens are counted as one a chunk`);
  }
  const assumed = answers.filter((answer) => answer.chunkTokens === 'assumed' && answer.outputTokensFrom === 'usage');
  const tokens = sum(assumed, (answer) => answer.outputTokens);
  const chunks = sum(assumed, (answer) => answer.chunkSizes.length);
  if (chunks > 0 && tokens > 1.1 * chunks) {
    const mean = (tokens / chunks).toFixed(1);
    warnings.push(`the server sends ${mean} tokens a chunk without saying how many are in each: ITL is per chunk`);
  }
  return warnings;
}

function sum<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}
