/**
 * Fields that completions and chat completions have in common, with OpenAI's and vLLM's names and ranges. Every field
 * may be null, as some clients send all of them; unknown fields are ignored.
 */
import { z } from 'zod';
import { requestLimits } from '../config.js';

export const roles = ['system', 'developer', 'user', 'assistant', 'tool', 'function'] as const;

export const flag = z.boolean().nullish();
/** An index into the vocabulary, whose size only the model knows: the document of the API puts it in. */
export const tokenId = z.int().min(0).meta({ format: 'token-id' });
export const tokenIds = z.array(tokenId).nullish();
/** Log probabilities to report beside a token's own. */
export const alternatives = z.int().min(0).max(requestLimits.logprobs).nullish();

/** Stop strings: one or several; empty ones are ignored later. */
const stopString = z.string().max(requestLimits.stopLength);
const stop = z
  .union([stopString, z.array(stopString).max(requestLimits.stopStrings)], {
    error: `must be a string of at most ${requestLimits.stopLength} characters or an array of at most ${requestLimits.stopStrings} of them`,
  })
  .nullish();

const streamOptions = z
  .object({
    include_usage: flag,
    continuous_usage_stats: flag,
  })
  .nullish();

/** Seeds of 64 bits are common; JSON rounds those beyond 2^53, always in the same way. */
const seedLimit = 2 ** 63;
const seed = z
  .number()
  .refine(Number.isInteger, { error: 'must be an integer' })
  .min(-seedLimit)
  .max(seedLimit, { error: 'must fit 64 bits' })
  .meta({ type: 'integer' })
  .nullish();

/** What only this is supported of: checked later, for a message that says so. */
export const toolChoice = z
  .unknown()
  .meta({ enum: ['none', 'auto', null] })
  .optional();
export const textFormat = z.looseObject({ type: z.string().meta({ const: 'text' }) }).nullish();

/** How text becomes tokens. */
export const encodingFields = {
  /** Put BOS (and the like) around it where the tokenizer does; default true for a prompt, false for a chat. */
  add_special_tokens: flag,
  /** Read the text of control tokens as the tokens; default true for a prompt, false for what messages say. */
  parse_special_tokens: flag,
} as const;

export const sharedFields = {
  model: z.string().nullish(),
  stream: flag,
  stream_options: streamOptions,
  max_tokens: z.int().min(0).nullish(),
  min_tokens: z.int().min(0).nullish(),
  n: z.int().min(1).max(requestLimits.choices).nullish(),
  stop,
  stop_token_ids: tokenIds,
  include_stop_str_in_output: flag,
  ignore_eos: flag,
  temperature: z.number().min(0).max(100).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  seed,
  presence_penalty: z.number().min(-2).max(2).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  repetition_penalty: z.number().gt(0).max(100).nullish(),
  logit_bias: z
    .record(z.string(), z.number().min(-100).max(100))
    .meta({ propertyNames: { pattern: '^\\d{1,15}$' } })
    .nullish(),
  allowed_token_ids: z.array(tokenId).min(1).nullish(),
  bad_words: z.array(z.string()).max(1024).nullish(),
  prompt_logprobs: alternatives,
  skip_special_tokens: flag,
  ...encodingFields,
  truncate_prompt_tokens: z
    .int()
    .min(-1)
    .refine((count) => count !== 0, { error: 'must not be 0: nothing would be left' })
    .meta({ not: { const: 0 } })
    .nullish(),
  return_token_ids: flag,
  priority: z.int().nullish(),
  request_id: z.string().min(1).max(128).nullish(),
  cache_salt: z.string().max(1024).nullish(),
  user: z.string().max(1024).nullish(),
  timeout: z.number().gt(0).max(86_400).nullish(),
} as const;

const shared = z.object(sharedFields);
export type SharedBody = z.output<typeof shared>;
