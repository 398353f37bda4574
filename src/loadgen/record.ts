/** What is kept of each request, and the latencies that follow from it. */
import type { Exchange } from './exchange.js';
import type { Failure } from './failure.js';
import type { StreamTimeline } from './stream.js';
import type { Milliseconds } from './units.js';

/** All times count from the start of the load. */
export interface RequestRecord {
  readonly index: number;
  readonly outcome: Exchange['outcome'];
  /** When it was to be sent, and when it was: the difference is the client's own delay. */
  readonly planned: Milliseconds;
  readonly sent: Milliseconds;
  readonly end: Milliseconds;
  /** Time to open the connection, 0 on an open one; it is part of TTFT. */
  readonly connect: Milliseconds;
  readonly maxTokens: number;
  readonly failure?: Failure;
  /** Only of a completed request. */
  readonly answer?: Answer;
}

export interface Answer {
  /** From sending to the first chunk that carries a token or any output. */
  readonly ttft: Milliseconds;
  /** From sending to the last event that carries a choice. */
  readonly e2e: Milliseconds;
  readonly outputTokens: number;
  readonly promptTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly finishReason: string | undefined;
  readonly outputTokensFrom: StreamTimeline['outputTokensFrom'];
  readonly chunkTokens: StreamTimeline['chunkTokens'];
  /** Arrival of each chunk with tokens, after sending, and the number of its tokens. */
  readonly chunkTimes: readonly Milliseconds[];
  readonly chunkSizes: readonly number[];
}

export interface RecordContext {
  readonly index: number;
  /** performance.now() at the start of the load. */
  readonly start: Milliseconds;
  readonly plannedAt: Milliseconds;
  readonly maxTokens: number;
}

export function makeRecord(exchange: Exchange, context: RecordContext): RequestRecord {
  const { timeline, failure, sentAt } = exchange;
  return {
    index: context.index,
    outcome: exchange.outcome,
    planned: context.plannedAt - context.start,
    sent: sentAt - context.start,
    end: exchange.endAt - context.start,
    connect: exchange.connect,
    maxTokens: context.maxTokens,
    ...(failure === undefined ? {} : { failure }),
    ...(timeline === undefined ? {} : { answer: makeAnswer(timeline, sentAt) }),
  };
}

function makeAnswer(timeline: StreamTimeline, sentAt: Milliseconds): Answer {
  return {
    ttft: timeline.firstTokenAt - sentAt,
    e2e: timeline.lastAt - sentAt,
    outputTokens: timeline.outputTokens,
    promptTokens: timeline.promptTokens,
    cachedTokens: timeline.cachedTokens,
    finishReason: timeline.finishReason,
    outputTokensFrom: timeline.outputTokensFrom,
    chunkTokens: timeline.chunkTokens,
    chunkTimes: timeline.chunks.map((chunk) => chunk.at - sentAt),
    chunkSizes: timeline.chunks.map((chunk) => chunk.tokens),
  };
}

/**
 * Time per output token: (e2e - ttft) / (tokens - 1), the definition of `vllm bench serve`.
 * @returns undefined for fewer than two tokens
 */
export function timePerOutputToken(answer: Answer): Milliseconds | undefined {
  return answer.outputTokens < 2 ? undefined : (answer.e2e - answer.ttft) / (answer.outputTokens - 1);
}

/**
 * Inter-token latencies: a chunk of k tokens after a gap is one step of k tokens, and gives k samples of gap / k. The
 * first chunk's tokens give none: their time is TTFT.
 */
export function interTokenLatencies(answer: Answer): Milliseconds[] {
  return answer.chunkTimes.flatMap((at, index) => {
    if (index === 0) return [];
    const tokens = answer.chunkSizes[index]!;
    return new Array<number>(tokens).fill((at - answer.chunkTimes[index - 1]!) / tokens);
  });
}
