/** What is asked: the bodies of the requests, the same for the same seed. */
import { UserError } from '../errors.js';
import type { PreparedRequest } from './exchange.js';
import { drawLength, type LengthDistribution } from './lengths.js';
import type { FilePrompt } from './prompt-file.js';
import { type RandomSource, randomInteger, randomSource } from './random.js';
import { WORDS } from './words.js';

export interface WorkloadOptions {
  readonly model: string;
  readonly endpoint: 'completions' | 'chat';
  readonly seed: number;
  readonly promptTokens: LengthDistribution;
  readonly outputTokens: LengthDistribution;
  /** So many tokens, the same in all synthetic prompts, come before the `promptTokens` of their own. */
  readonly sharedPrefixTokens: number;
  /** Synthetic prompts for completions are sent as token ids or as words; chats are always words. */
  readonly promptAs: 'ids' | 'words';
  /** Token ids are drawn from this range, both ends included. */
  readonly tokenIds: { readonly low: number; readonly high: number };
  readonly ignoreEos: boolean;
  /** Asks for token counts on every chunk (`continuous_usage_stats`), which OpenAI's own service does not know. */
  readonly continuousUsage: boolean;
  /** Keys that are added to every body, and win over those made here. */
  readonly extraBody: Readonly<Record<string, unknown>>;
  /** Used in turn, from a place given by the seed, instead of synthetic prompts. */
  readonly prompts?: readonly FilePrompt[];
}

export interface WorkloadRequest extends PreparedRequest {
  /** Tokens asked for (max_tokens). */
  readonly maxTokens: number;
}

export class Workload {
  readonly #options: WorkloadOptions;

  constructor(options: WorkloadOptions) {
    this.#options = options;
  }

  /**
   * The request at `index` of the phase that is called `phase`. Every phase has prompts of its own, so that no phase
   * finds those of an earlier one in the server's prefix cache.
   */
  request(phase: string, index: number): WorkloadRequest {
    const { endpoint, seed, ignoreEos, continuousUsage, model, extraBody } = this.#options;
    const random = randomSource(seed, phase, index);
    const content = this.#content(random, phase, index);
    const body = {
      model,
      ...content.body,
      max_tokens: content.maxTokens,
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true, ...(continuousUsage ? { continuous_usage_stats: true } : {}) },
      ...(ignoreEos ? { ignore_eos: true } : {}),
      ...extraBody,
    };
    return {
      path: endpoint === 'chat' ? '/chat/completions' : '/completions',
      body: Buffer.from(JSON.stringify(body)),
      maxTokens: content.maxTokens,
    };
  }

  #content(random: RandomSource, phase: string, index: number): { body: object; maxTokens: number } {
    const { prompts, seed, outputTokens, endpoint, promptAs } = this.#options;
    const maxTokens = drawLength(outputTokens, random);
    if (prompts !== undefined) {
      const start = randomInteger(randomSource(seed, phase, 'start'), 0, prompts.length - 1);
      return this.#fromFile(prompts[(start + index) % prompts.length]!, maxTokens);
    }
    if (endpoint === 'chat') return { body: asChat(this.#words(random)), maxTokens };
    return { body: { prompt: promptAs === 'ids' ? this.#ids(random) : this.#words(random) }, maxTokens };
  }

  #fromFile(prompt: FilePrompt, drawn: number): { body: object; maxTokens: number } {
    const maxTokens = ('max_tokens' in prompt ? prompt.max_tokens : undefined) ?? drawn;
    if ('messages' in prompt) {
      if (this.#options.endpoint === 'chat') return { body: { messages: prompt.messages }, maxTokens };
      throw new UserError('the file of prompts holds messages; send them with --endpoint chat');
    }
    if (this.#options.endpoint === 'completions') return { body: { prompt: prompt.prompt }, maxTokens };
    if (typeof prompt.prompt === 'string') return { body: asChat(prompt.prompt), maxTokens };
    throw new UserError('the file of prompts holds token ids; send them with --endpoint completions');
  }

  #ids(random: RandomSource): number[] {
    const { low, high } = this.#options.tokenIds;
    return this.#sequence(random, (source) => randomInteger(source, low, high));
  }

  #words(random: RandomSource): string {
    return this.#sequence(random, (source) => WORDS[randomInteger(source, 0, WORDS.length - 1)]!).join(' ');
  }

  /** A prefix from a source that all requests share, then what is the request's own. */
  #sequence<T>(random: RandomSource, draw: (random: RandomSource) => T): T[] {
    const { promptTokens, sharedPrefixTokens, seed } = this.#options;
    const length = sharedPrefixTokens + drawLength(promptTokens, random);
    const shared = randomSource(seed, 'shared prefix');
    return Array.from({ length }, (_, index) => draw(index < sharedPrefixTokens ? shared : random));
  }
}

function asChat(content: string): { messages: { role: string; content: string }[] } {
  return { messages: [{ role: 'user', content }] };
}
