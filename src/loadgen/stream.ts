/**
 * Follows one streamed answer: which tokens came when, how it ended, and whether that counts as a success. Time is passed
 * in with the bytes, so that it is the time of their arrival and not of their parsing.
 */
import type { Failure, FailureKind } from './failure.js';
import { parseChunk, type TokenUsage } from './openai-chunk.js';
import { SseDecoder, type SseEvent } from './sse.js';
import type { Milliseconds } from './units.js';

/** Tokens that arrived together: one step of the server as the client sees it. */
export interface TokenChunk {
  readonly at: Milliseconds;
  readonly tokens: number;
}

export interface StreamTimeline {
  readonly chunks: readonly TokenChunk[];
  /**
   * `server`: every chunk said how many tokens it holds (continuous usage, token ids or logprobs). `assumed`: one token a
   * chunk was assumed for those that did not.
   */
  readonly chunkTokens: 'server' | 'assumed';
  /** The first chunk that carries a token or any output; the first with a choice when the answer is empty. */
  readonly firstTokenAt: Milliseconds;
  /** The last event that carries a choice. */
  readonly lastAt: Milliseconds;
  /** Tokens of the whole answer: the server's usage where it is given, else the sum over the chunks. */
  readonly outputTokens: number;
  readonly outputTokensFrom: 'usage' | 'chunks';
  readonly promptTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly finishReason: string | undefined;
}

export type StreamOutcome = { readonly timeline: StreamTimeline } | { readonly failure: Failure };

/** Finish reasons by which a server says that it failed. */
const FAILED_REASONS: ReadonlySet<string> = new Set(['error', 'abort']);

export class StreamRecorder {
  readonly #sse: SseDecoder;
  readonly #chunks: TokenChunk[] = [];
  #now: Milliseconds = 0;
  #failure: Failure | undefined;
  #done = false;
  #finishReason: string | undefined;
  #firstChoiceAt: Milliseconds | undefined;
  #firstOutputAt: Milliseconds | undefined;
  #lastChoiceAt: Milliseconds = 0;
  #usage: TokenUsage | undefined;
  #countedByUsage = 0;
  #usageOnEveryChunk = true;
  #assumed = false;

  constructor(maxBufferSize?: number) {
    this.#sse = new SseDecoder({
      onEvent: (event) => this.#onEvent(event),
      onOverflow: () => this.#fail('malformed', 'an event is longer than the buffer allows'),
      ...(maxBufferSize === undefined ? {} : { maxBufferSize }),
    });
  }

  /** True once nothing that may follow changes the outcome. */
  get settled(): boolean {
    return this.#done || this.#failure !== undefined;
  }

  /** Takes bytes of the body that arrived at `at`. */
  push(bytes: Uint8Array, at: Milliseconds): void {
    this.#now = at;
    this.#sse.push(bytes);
  }

  /**
   * The outcome after the last byte.
   * @param clean whether the body ended as HTTP says, rather than by a broken connection
   */
  end(clean: boolean): StreamOutcome {
    const complete = this.#done || (clean && this.#finishReason !== undefined);
    if (this.#failure === undefined && !complete) {
      this.#fail('cut', 'the stream ended without [DONE] or a finish reason');
    }
    if (this.#failure === undefined && this.#firstChoiceAt === undefined) {
      this.#fail('malformed', 'the stream held no choice');
    }
    return this.#failure !== undefined ? { failure: this.#failure } : { timeline: this.#timeline() };
  }

  #timeline(): StreamTimeline {
    const counted = this.#chunks.reduce((sum, chunk) => sum + chunk.tokens, 0);
    return {
      chunks: this.#chunks,
      chunkTokens: this.#assumed ? 'assumed' : 'server',
      firstTokenAt: this.#firstOutputAt ?? this.#firstChoiceAt ?? this.#lastChoiceAt,
      lastAt: this.#lastChoiceAt,
      outputTokens: this.#usage?.completionTokens ?? counted,
      outputTokensFrom: this.#usage === undefined ? 'chunks' : 'usage',
      promptTokens: this.#usage?.promptTokens,
      cachedTokens: this.#usage?.cachedTokens,
      finishReason: this.#finishReason,
    };
  }

  #fail(kind: FailureKind, message: string): void {
    this.#failure ??= { kind, message };
  }

  #onEvent({ event, data }: SseEvent): void {
    if (this.#done) return;
    if (data === '[DONE]') {
      this.#done = true;
      return;
    }
    const chunk = parseChunk(data);
    if (chunk === undefined) {
      this.#fail('malformed', `not a JSON object: ${data.slice(0, 100)}`);
      return;
    }
    if (chunk.error !== undefined || event === 'error') {
      this.#fail('error_event', chunk.error ?? data.slice(0, 200));
      return;
    }
    if (chunk.usage !== undefined) this.#usage = chunk.usage;
    if (!chunk.hasChoice) return;

    this.#firstChoiceAt ??= this.#now;
    this.#lastChoiceAt = this.#now;
    this.#countTokens(chunk.hasText, chunk.usage, chunk.listedTokens);
    if (chunk.finishReason !== undefined) {
      this.#finishReason ??= chunk.finishReason;
      if (FAILED_REASONS.has(chunk.finishReason)) this.#fail('error_event', `finish_reason "${chunk.finishReason}"`);
    }
  }

  /**
   * Usage counts from the start of the answer, so a chunk holds the difference to the chunk before, unless usage was
   * missing on an earlier one: a server that sends it only at the end says nothing about single chunks.
   */
  #countTokens(hasText: boolean, usage: TokenUsage | undefined, listed: number | undefined): void {
    let tokens = listed;
    if (usage === undefined) {
      if (hasText) this.#usageOnEveryChunk = false;
    } else if (this.#usageOnEveryChunk) {
      tokens = usage.completionTokens - this.#countedByUsage;
      this.#countedByUsage = usage.completionTokens;
    }
    if (tokens === undefined && hasText) {
      tokens = 1;
      this.#assumed = true;
    }
    if (hasText || (tokens ?? 0) > 0) this.#firstOutputAt ??= this.#now;
    if (tokens !== undefined && tokens > 0) this.#chunks.push({ at: this.#now, tokens });
  }
}
