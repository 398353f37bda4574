/** Answers of /v1/responses: a response object, and the typed events of its stream, numbered from 0. */
import { chatLogprobs } from './chat-format.js';
import type { ChoiceFinish } from './choice.js';
import type { ApiError } from './errors.js';
import type { AnswerFormat, CollectedChoice } from './format.js';
import type { Generation, StepDelta } from './generation.js';
import { namedEvent } from './sse.js';
import type { TokenEntry } from './token-entries.js';

export interface ResponsesFormatOptions {
  /** Of the response and of its one message. */
  readonly id: string;
  readonly messageId: string;
  /** Unix seconds. */
  readonly created: number;
  /** What the response repeats of the request. */
  readonly request: object;
  readonly logprobs: boolean;
}

type Status = 'in_progress' | 'completed' | 'incomplete' | 'cancelled' | 'failed';

export class ResponsesFormat implements AnswerFormat {
  private sequence = 0;
  private text = '';
  private readonly entries: TokenEntry[] = [];

  constructor(private readonly options: ResponsesFormatOptions) {}

  chunks(deltas: readonly StepDelta[]): string {
    let events = '';
    for (const { first, delta } of deltas) {
      if (first) events += this.opening();
      this.text += delta.text;
      if (this.options.logprobs) this.entries.push(...delta.entries);
      if (delta.text === '' && delta.entries.length === 0) continue;
      events += this.event('response.output_text.delta', {
        ...this.place,
        delta: delta.text,
        logprobs: this.logprobs(delta.entries),
      });
    }
    return events;
  }

  tail(generation: Generation): string {
    const finish = generation.choices[0]?.finish;
    const status = statusOf(finish);
    const part = this.part(this.text, this.entries);
    const item = this.message(this.text, this.entries, status);
    return (
      this.event('response.output_text.done', { ...this.place, text: this.text, logprobs: part.logprobs }) +
      this.event('response.content_part.done', { ...this.place, part }) +
      this.event('response.output_item.done', { output_index: 0, item }) +
      this.event(status === 'completed' ? 'response.completed' : 'response.incomplete', {
        response: this.response(status, [item], generation, finish),
      })
    );
  }

  failure(error: ApiError, generation: Generation): string {
    const failed = {
      ...this.response('failed', [], generation),
      error: { code: error.options.code ?? 'server_error', message: error.message },
    };
    return (this.sequence === 0 ? this.opening() : '') + this.event('response.failed', { response: failed });
  }

  whole([choice]: readonly CollectedChoice[], generation: Generation): object {
    const { text, entries, finish } = choice!;
    const status = statusOf(finish);
    return this.response(status, [this.message(text, entries, status)], generation, finish);
  }

  /** Comes with the first token, as in chats. */
  private opening(): string {
    const response = this.response('in_progress', []);
    const item = { ...this.message('', [], 'in_progress'), content: [] };
    return (
      this.event('response.created', { response }) +
      this.event('response.in_progress', { response }) +
      this.event('response.output_item.added', { output_index: 0, item }) +
      this.event('response.content_part.added', { ...this.place, part: this.part('', []) })
    );
  }

  private event(type: string, fields: object): string {
    return namedEvent(type, JSON.stringify({ type, sequence_number: this.sequence++, ...fields }));
  }

  private get place(): object {
    return { item_id: this.options.messageId, output_index: 0, content_index: 0 };
  }

  private response(status: Status, output: readonly object[], generation?: Generation, finish?: ChoiceFinish): object {
    const { id, created, request } = this.options;
    return {
      id,
      object: 'response',
      created_at: created,
      status,
      error: null,
      incomplete_details: finish?.reason === 'length' ? { reason: 'max_output_tokens' } : null,
      ...request,
      output,
      usage: generation && status !== 'in_progress' ? usageOf(generation) : null,
    };
  }

  private message(text: string, entries: readonly TokenEntry[], status: Status): object {
    return {
      id: this.options.messageId,
      type: 'message',
      status: status === 'completed' || status === 'in_progress' ? status : 'incomplete',
      role: 'assistant',
      content: [this.part(text, entries)],
    };
  }

  private part(text: string, entries: readonly TokenEntry[]) {
    return { type: 'output_text', text, annotations: [], logprobs: this.logprobs(entries) };
  }

  private logprobs(entries: readonly TokenEntry[]): readonly object[] {
    return this.options.logprobs ? chatLogprobs(entries).content : [];
  }
}

function statusOf(finish: ChoiceFinish | undefined): Status {
  if (finish?.reason === 'abort') return 'cancelled';
  return finish?.reason === 'length' ? 'incomplete' : 'completed';
}

function usageOf(generation: Generation): object {
  const usage = generation.usage();
  return {
    input_tokens: usage.prompt_tokens,
    input_tokens_details: { cached_tokens: usage.prompt_tokens_details.cached_tokens },
    output_tokens: usage.completion_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: usage.total_tokens,
  };
}
