/** Answers of /v1/chat/completions: chat.completion and chat.completion.chunk objects. */
import type { ApiError } from './errors.js';
import {
  type AnswerFormat,
  type AnswerOptions,
  type CollectedChoice,
  chunkHead,
  chunkUsage,
  failureEvents,
  finishJson,
  tailEvents,
  tells,
} from './format.js';
import type { Generation, StepDelta } from './generation.js';
import { event } from './sse.js';
import type { TokenEntry } from './token-entries.js';

export interface ChatFormatOptions extends AnswerOptions {
  readonly logprobs: boolean;
  /** vLLM's prompt_logprobs; undefined where not asked for. */
  readonly promptLogprobs: (generation: Generation) => unknown[] | undefined;
}

export class ChatFormat implements AnswerFormat {
  private readonly head: string;

  constructor(private readonly options: ChatFormatOptions) {
    this.head = chunkHead('chat.completion.chunk', options);
  }

  chunks(deltas: readonly StepDelta[], generation: Generation): string {
    let events = '';
    for (const step of deltas) {
      if (step.first) events += this.opening(step.index, generation);
      if (tells({ ...step, first: false }, this.options)) events += this.chunk(step, generation);
    }
    return events;
  }

  /** Comes with a choice's first token, so that readers who time the first event time the first token. */
  private opening(index: number, generation: Generation): string {
    const choice = `{"index":${index},"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`;
    const prompt = this.options.tokenIds
      ? `,"prompt_token_ids":${JSON.stringify([...generation.job.requests[0]!.prompt])}`
      : '';
    return event(`${this.head}${choice}]${prompt}${chunkUsage(this.options, generation)}}`);
  }

  private chunk({ index, delta }: StepDelta, generation: Generation): string {
    const content = delta.text === '' ? '{}' : `{"content":${JSON.stringify(delta.text)}}`;
    const logprobs = this.options.logprobs ? JSON.stringify(chatLogprobs(delta.entries)) : 'null';
    let json = `${this.head}{"index":${index},"delta":${content},"logprobs":${logprobs}`;
    json += finishJson(delta.finish);
    if (this.options.tokenIds) json += `,"token_ids":${JSON.stringify(delta.tokenIds)}`;
    return event(`${json}}]${chunkUsage(this.options, generation)}}`);
  }

  tail(generation: Generation): string {
    return tailEvents(this.head, this.options, generation);
  }

  failure(error: ApiError): string {
    return failureEvents(error);
  }

  whole(choices: readonly CollectedChoice[], generation: Generation): object {
    const { id, created, model, tokenIds } = this.options;
    const promptLogprobs = this.options.promptLogprobs(generation);
    return {
      id,
      object: 'chat.completion',
      created,
      model,
      choices: choices.map(({ text, entries, finish, tokenIds: ids }, index) => ({
        index,
        message: { role: 'assistant', content: text, refusal: null },
        logprobs: this.options.logprobs ? chatLogprobs(entries) : null,
        finish_reason: finish?.reason ?? null,
        stop_reason: finish?.stop ?? null,
        ...(tokenIds && { token_ids: ids }),
      })),
      usage: generation.usage(),
      ...(promptLogprobs && { prompt_logprobs: promptLogprobs }),
      ...(tokenIds && { prompt_token_ids: [...generation.job.requests[0]!.prompt] }),
    };
  }
}

/** Log probabilities as chats and responses have them. */
export function chatLogprobs(entries: readonly TokenEntry[]): { content: object[]; refusal: null } {
  const token = ({ text, logprob, bytes }: Omit<TokenEntry, 'top'>) => ({ token: text, logprob, bytes: [...bytes] });
  return {
    content: entries.map((entry) => ({ ...token(entry), top_logprobs: entry.top.map(token) })),
    refusal: null,
  };
}
