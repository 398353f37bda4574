/** Answers of /v1/completions: text_completion objects. */
import type { Choice } from './choice.js';
import type { PromptEntry } from './echo.js';
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

export interface CompletionFormatOptions extends AnswerOptions {
  /** Choices asked for each prompt; may be fewer than were generated (best_of). */
  readonly n: number;
  readonly logprobs: boolean;
  /** The text of each prompt, repeated before its choices; undefined without echo. */
  readonly echo: readonly string[] | undefined;
  /** The tokens of a repeated prompt; called when its log probabilities are known. */
  readonly promptEntries: (prompt: number, generation: Generation) => readonly PromptEntry[];
  /** vLLM's prompt_logprobs of a prompt; undefined where not asked for. */
  readonly promptLogprobs: (prompt: number, generation: Generation) => unknown[] | undefined;
}

type Entry = PromptEntry | TokenEntry;

/** OpenAI's logprobs of a completion. Offsets count code points, as their readers in Python do. */
interface CompletionLogprobs {
  readonly text_offset: number[];
  readonly token_logprobs: (number | null)[];
  readonly tokens: string[];
  readonly top_logprobs: (Record<string, number> | null)[];
}

export class CompletionFormat implements AnswerFormat {
  private readonly head: string;
  /** Code points of text that the entries of each choice have covered. */
  private readonly offsets = new Map<number, number>();

  constructor(private readonly options: CompletionFormatOptions) {
    this.head = chunkHead('text_completion', options);
  }

  chunks(deltas: readonly StepDelta[], generation: Generation): string {
    let events = '';
    for (const delta of deltas) if (tells(delta, this.options)) events += this.chunk(delta, generation);
    return events;
  }

  private chunk({ index, prompt, first, delta }: StepDelta, generation: Generation): string {
    const { echo, logprobs, tokenIds } = this.options;
    const text = first && echo ? echo[prompt]! + delta.text : delta.text;
    let json = `${this.head}{"index":${index},"text":${JSON.stringify(text)},"logprobs":`;
    if (logprobs) {
      const repeated = first && echo ? this.options.promptEntries(prompt, generation) : [];
      json += JSON.stringify(this.logprobs(index, [...repeated, ...delta.entries]));
    } else {
      json += 'null';
    }
    json += finishJson(delta.finish);
    if (tokenIds) {
      json += `,"token_ids":${JSON.stringify(delta.tokenIds)}`;
      if (first) json += `,"prompt_token_ids":${JSON.stringify([...generation.job.requests[prompt]!.prompt])}`;
    }
    return event(`${json}}]${chunkUsage(this.options, generation)}}`);
  }

  tail(generation: Generation): string {
    return tailEvents(this.head, this.options, generation);
  }

  failure(error: ApiError): string {
    return failureEvents(error);
  }

  whole(choices: readonly CollectedChoice[], generation: Generation): object {
    const { id, created, model, n } = this.options;
    const answers = generation.job.requests.flatMap((request, prompt) => {
      const from = prompt * request.choices;
      const candidates = choices.slice(from, from + request.choices).map((collected, i) => ({
        collected,
        choice: generation.choices[from + i]!,
      }));
      return best(candidates, n).map(({ collected }, i) => this.answer(collected, prompt, prompt * n + i, generation));
    });
    return { id, object: 'text_completion', created, model, choices: answers, usage: generation.usage() };
  }

  private answer(collected: CollectedChoice, prompt: number, index: number, generation: Generation): object {
    const { echo, logprobs, tokenIds } = this.options;
    const repeated = logprobs && echo ? this.options.promptEntries(prompt, generation) : [];
    const promptLogprobs = this.options.promptLogprobs(prompt, generation);
    return {
      index,
      text: echo ? echo[prompt]! + collected.text : collected.text,
      logprobs: logprobs ? this.logprobs(index, [...repeated, ...collected.entries]) : null,
      finish_reason: collected.finish?.reason ?? null,
      stop_reason: collected.finish?.stop ?? null,
      ...(promptLogprobs && { prompt_logprobs: promptLogprobs }),
      ...(tokenIds && {
        token_ids: collected.tokenIds,
        prompt_token_ids: [...generation.job.requests[prompt]!.prompt],
      }),
    };
  }

  private logprobs(index: number, entries: readonly Entry[]): CompletionLogprobs {
    let offset = this.offsets.get(index) ?? 0;
    const json: CompletionLogprobs = { text_offset: [], token_logprobs: [], tokens: [], top_logprobs: [] };
    for (const entry of entries) {
      json.text_offset.push(offset);
      json.token_logprobs.push(entry.logprob);
      json.tokens.push(entry.text);
      json.top_logprobs.push(topLogprobs(entry));
      for (const _ of entry.text) offset++;
    }
    this.offsets.set(index, offset);
    return json;
  }
}

/** Alternatives by their text, the token itself among them. Of several with the same text the likeliest stays. */
function topLogprobs({ text, logprob, top }: Entry): Record<string, number> | null {
  if (top === null || logprob === null) return null;
  const json: Record<string, number> = Object.create(null);
  for (const other of top) json[other.text] ??= other.logprob;
  json[text] = logprob;
  return json;
}

/** The n likeliest by mean log probability of a token (best_of), likeliest first; all in order where all are wanted. */
function best<Item extends { readonly choice: Choice }>(candidates: Item[], n: number): Item[] {
  if (candidates.length <= n) return candidates;
  const mean = ({ choice }: Item) => choice.logprobSum / Math.max(1, choice.completionTokens);
  return candidates.sort((a, b) => mean(b) - mean(a)).slice(0, n);
}
