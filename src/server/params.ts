/**
 * From a body's fields to what engine and answer need: ranges that depend on the model are checked here, defaults and
 * the meaning of OpenAI's and vLLM's parameters are settled here.
 */
import { randomInt } from 'node:crypto';
import type { NewRequest } from '../engine/client.js';
import type { SamplingParams, TokenId } from '../engine/protocol.js';
import type { TextModel } from '../text/text-model.js';
import type { ChoiceOptions } from './choice.js';
import { requestLimits, type ServedModel } from './config.js';
import { clip, contextLengthExceeded, invalid } from './errors.js';
import type { SharedBody } from './schemas/shared.js';

/** What parameters are resolved against. */
export interface ParamContext {
  readonly text: TextModel;
  readonly model: ServedModel;
  readonly vocabSize: number;
  readonly maxModelLen: number;
  /** The API key's name, to which tokens are accounted where keys are asked for: callers can make up users, but no keys. */
  readonly account?: string | undefined;
}

/** The request to the engine but for its prompt and what follows from it. */
export type RequestTemplate = Omit<NewRequest, 'prompt' | 'maxTokens' | 'choices' | 'logprobs' | 'promptLogprobs'>;

/** Temperatures below this are greedy: dividing by them overflows, and nothing else would ever be drawn. */
const greedyBelow = 1e-5;

export async function requestTemplate(body: SharedBody, context: ParamContext): Promise<RequestTemplate> {
  const stopTokens = tokenList(body.stop_token_ids, 'stop_token_ids', context.vocabSize);
  return {
    sampling: await samplingParams(body, context),
    minTokens: body.min_tokens ?? 0,
    endTokens: body.ignore_eos ? stopTokens : [...new Set([...context.model.endTokens, ...stopTokens])],
    priority: body.priority ?? 0,
    user: context.account ?? body.user ?? '',
    cacheSalt: body.cache_salt ?? '',
    ...(typeof body.timeout === 'number' && { queueTimeout: body.timeout }),
  };
}

export function choiceOptions(body: SharedBody, logprobs: boolean): ChoiceOptions {
  const stop = body.stop ?? [];
  return {
    skipSpecialTokens: body.skip_special_tokens ?? true,
    stop: typeof stop === 'string' ? [stop] : stop,
    includeStop: body.include_stop_str_in_output ?? false,
    minTokens: body.min_tokens ?? 0,
    logprobs,
  };
}

async function samplingParams(body: SharedBody, context: ParamContext): Promise<SamplingParams> {
  const { defaults } = context.model;
  const temperature = body.temperature ?? defaults.temperature ?? 1;
  const topK = body.top_k ?? defaults.topK ?? 0;
  return {
    temperature: temperature < greedyBelow ? 0 : temperature,
    topK: Math.max(topK, 0),
    // A nucleus of nothing is the likeliest token alone.
    topP: Math.max(body.top_p ?? defaults.topP ?? 1, Number.EPSILON),
    minP: body.min_p ?? defaults.minP ?? 0,
    seed: body.seed === undefined || body.seed === null ? randomInt(2 ** 47) : foldSeed(body.seed),
    presencePenalty: body.presence_penalty ?? 0,
    frequencyPenalty: body.frequency_penalty ?? 0,
    repetitionPenalty: body.repetition_penalty ?? defaults.repetitionPenalty ?? 1,
    logitBias: logitBias(body.logit_bias, context.vocabSize),
    allowedTokenIds: tokenList(body.allowed_token_ids, 'allowed_token_ids', context.vocabSize),
    badWords: await badWords(body.bad_words, context.text),
  };
}

/** A 64-bit seed as a safe integer, always the same one. */
function foldSeed(seed: number): number {
  return Number.isSafeInteger(seed) ? seed : Number(BigInt.asIntN(53, BigInt(seed) ^ (BigInt(seed) >> 53n)));
}

function tokenList(ids: readonly number[] | null | undefined, param: string, vocabSize: number): readonly TokenId[] {
  const wrong = ids?.findIndex((id) => id >= vocabSize) ?? -1;
  if (ids && wrong >= 0) throw invalid(`${param}[${wrong}]`, outsideVocabulary(param, ids[wrong]!, vocabSize));
  return ids ?? [];
}

/** The same ids. Throws ApiError (400) naming the first that is outside the vocabulary. */
export function checkTokens(ids: readonly number[], param: string, vocabSize: number): readonly number[] {
  const wrong = ids.find((id) => id >= vocabSize);
  if (wrong !== undefined) throw invalid(param, outsideVocabulary(param, wrong, vocabSize));
  return ids;
}

function outsideVocabulary(param: string, id: number, vocabSize: number): string {
  return `'${param}' has the token id ${id}, but the vocabulary's ids go from 0 to ${vocabSize - 1}.`;
}

function logitBias(bias: Readonly<Record<string, number>> | null | undefined, vocabSize: number): [TokenId, number][] {
  return Object.entries(bias ?? {}).map(([key, value]) => {
    const id = /^\d{1,15}$/.test(key) ? Number(key) : -1;
    if (id < 0) throw invalid('logit_bias', `'logit_bias' has the key '${clip(key, 40)}', which is no token id.`);
    if (id >= vocabSize) throw invalid('logit_bias', outsideVocabulary('logit_bias', id, vocabSize));
    return [id, value];
  });
}

/** Each word as it begins a text and, where that is the same number of tokens, as it follows a space (as vLLM does). */
async function badWords(words: readonly string[] | null | undefined, text: TextModel): Promise<TokenId[][]> {
  const sequences: TokenId[][] = [];
  for (const [index, word] of (words ?? []).entries()) {
    const bare = word.trimStart();
    const options = { addSpecialTokens: false, parseSpecialTokens: false };
    const tokens = await text.encode(bare, options);
    if (tokens.length === 0) throw invalid(`bad_words[${index}]`, `'bad_words[${index}]' must not be empty.`);
    sequences.push([...tokens]);
    const spaced = await text.encode(` ${bare}`, options);
    if (spaced.length === tokens.length && spaced[0] !== tokens[0]) sequences.push([...spaced]);
  }
  return sequences;
}

/** Cuts a prompt to its last tokens where the caller asked for it; -1 cuts to the longest the model can continue. */
export function truncate(tokens: Int32Array, keep: number | null | undefined, maxModelLen: number): Int32Array {
  if (keep === undefined || keep === null) return tokens;
  const length = keep === -1 ? maxModelLen - 1 : keep;
  return tokens.length > length ? tokens.slice(tokens.length - length) : tokens;
}

/** Tokens left for an answer. Throws ApiError (400) where none is. */
export function roomFor(prompt: Int32Array, param: string, maxModelLen: number): number {
  if (prompt.length === 0) throw invalid(param, `'${param}' has no tokens: there is nothing to continue.`);
  if (prompt.length >= maxModelLen) throw contextLengthExceeded(param, prompt.length, maxModelLen);
  return maxModelLen - prompt.length;
}

/** Rules between fields. Throws ApiError (400). */
export function checkTogether(body: SharedBody, maxTokens: number | undefined, prompts: number): void {
  if (body.stream_options && !body.stream) {
    throw invalid('stream_options', "'stream_options' is only allowed when 'stream' is true.");
  }
  if (body.stream && body.prompt_logprobs !== undefined && body.prompt_logprobs !== null) {
    throw invalid('prompt_logprobs', "'prompt_logprobs' cannot be streamed.");
  }
  if (maxTokens !== undefined && (body.min_tokens ?? 0) > maxTokens) {
    throw invalid('min_tokens', `'min_tokens' must be at most the ${maxTokens} tokens to generate.`);
  }
  if (prompts * (body.n ?? 1) > requestLimits.sequences) {
    throw invalid(
      'n',
      `'n' choices of every prompt make more than the ${requestLimits.sequences} a request may ask for.`,
    );
  }
}

/** Throws ApiError (400) for a choice of tools that forces a call. */
export function checkToolChoice(choice: unknown): void {
  if (choice !== undefined && choice !== null && choice !== 'none' && choice !== 'auto') {
    throw invalid('tool_choice', "'tool_choice' can only be 'none' or 'auto': calls cannot be forced yet.");
  }
}
