/**
 * How an answer is written, for each endpoint: the chunks of a stream and the whole. Both are made from the same deltas.
 */
import type { TokenId } from '../engine/protocol.js';
import type { ChoiceFinish } from './choice.js';
import type { ApiError } from './errors.js';
import type { Generation, StepDelta } from './generation.js';
import type { SharedBody } from './schemas/shared.js';
import { doneEvent, event } from './sse.js';
import type { TokenEntry } from './token-entries.js';

export interface AnswerFormat {
  /** The events for what a step added; '' where there is nothing to tell. */
  chunks(deltas: readonly StepDelta[], generation: Generation): string;
  /** Events after the last choice ended, to the end of the stream. */
  tail(generation: Generation): string;
  /** Events that end a stream after a failure. */
  failure(error: ApiError, generation: Generation): string;
  /** The body of an answer that is not streamed. */
  whole(choices: readonly CollectedChoice[], generation: Generation): object;
}

/** What every answer carries, and what the caller asked to have in it. */
export interface AnswerOptions {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  readonly tokenIds: boolean;
}

export function answerOptions(id: string, model: string, body: SharedBody): AnswerOptions {
  return {
    id,
    created: Math.floor(Date.now() / 1000),
    model,
    includeUsage: body.stream_options?.include_usage ?? false,
    continuousUsage: body.stream_options?.continuous_usage_stats ?? false,
    tokenIds: body.return_token_ids ?? false,
  };
}

/** All deltas of a choice, joined. */
export interface CollectedChoice {
  text: string;
  readonly entries: TokenEntry[];
  readonly tokenIds: TokenId[];
  finish: ChoiceFinish | undefined;
}

export function collect(choices: CollectedChoice[], deltas: readonly StepDelta[]): void {
  for (const { index, delta } of deltas) {
    const choice = choices[index]!;
    choice.text += delta.text;
    for (const entry of delta.entries) choice.entries.push(entry);
    for (const id of delta.tokenIds) choice.tokenIds.push(id);
    choice.finish = delta.finish;
  }
}

export function emptyChoice(): CollectedChoice {
  return { text: '', entries: [], tokenIds: [], finish: undefined };
}

/** The JSON of a completion's or chat's chunk up to its choices. */
export function chunkHead(object: string, { id, created, model }: AnswerOptions): string {
  return `${JSON.stringify({ id, object, created, model }).slice(0, -1)},"choices":[`;
}

/** The JSON of how a choice ended, or that it has not, as it stands after its content. */
export function finishJson(finish: ChoiceFinish | undefined): string {
  if (finish === undefined) return ',"finish_reason":null';
  return `,"finish_reason":"${finish.reason}","stop_reason":${JSON.stringify(finish.stop)}`;
}

/** What follows the last choice: usage, where it was asked for, and the end. */
export function tailEvents(head: string, options: AnswerOptions, generation: Generation): string {
  if (!options.includeUsage) return doneEvent;
  return event(`${head}],"usage":${JSON.stringify(generation.usage())}}`) + doneEvent;
}

/** A failure in mid-stream as the readers of completions and chats expect it. */
export function failureEvents(error: ApiError): string {
  return event(JSON.stringify(error.body())) + doneEvent;
}

/** The end of a chunk's JSON after its choices: usage as the caller asked for it, null in between as OpenAI does. */
export function chunkUsage(options: AnswerOptions, generation: Generation): string {
  if (options.continuousUsage) return `,"usage":${JSON.stringify(generation.usage())}`;
  return options.includeUsage ? ',"usage":null' : '';
}

/** Whether a delta has anything for its reader. Text that is still held back makes no event. */
export function tells({ first, delta }: StepDelta, options: AnswerOptions): boolean {
  return (
    first ||
    delta.finish !== undefined ||
    delta.text !== '' ||
    delta.entries.length > 0 ||
    options.tokenIds ||
    options.continuousUsage
  );
}
