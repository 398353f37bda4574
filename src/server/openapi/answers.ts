/** What the endpoints answer, as schemas for /openapi.json; the tests hold real answers against them. */
import { z } from 'zod';

const count = z.int().min(0);
const finite = z.number();
const bytes = z.array(z.int().min(0).max(255));

export const errorAnswer = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string().nullable(),
  }),
});

const usage = z.object({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  prompt_tokens_details: z.object({ cached_tokens: count }),
});

const finishReason = z.enum(['stop', 'length', 'abort']);
const stopReason = z.union([z.string(), z.int()]).nullable();

/** vLLM's prompt_logprobs: null for the first token, then tokens by their ids. */
const promptLogprobs = z.array(
  z
    .record(
      z.string(),
      z.object({ logprob: finite.describe('Natural logarithm.'), rank: z.int().min(1), decoded_token: z.string() }),
    )
    .nullable(),
);

const completionLogprobs = z.object({
  text_offset: z.array(count),
  token_logprobs: z.array(finite.nullable()),
  tokens: z.array(z.string()),
  top_logprobs: z.array(z.record(z.string(), finite).nullable()),
});

export const completionAnswer = z.object({
  id: z.string(),
  object: z.literal('text_completion'),
  created: z.int(),
  model: z.string(),
  choices: z.array(
    z.object({
      index: count,
      text: z.string(),
      logprobs: completionLogprobs.nullable(),
      finish_reason: finishReason,
      stop_reason: stopReason,
      prompt_logprobs: promptLogprobs.optional(),
      token_ids: z.array(count).optional(),
      prompt_token_ids: z.array(count).optional(),
    }),
  ),
  usage,
});

const tokenLogprob = { token: z.string(), logprob: finite, bytes };
const chatToken = z.object({ ...tokenLogprob, top_logprobs: z.array(z.object(tokenLogprob)) });

export const chatAnswer = z.object({
  id: z.string(),
  object: z.literal('chat.completion'),
  created: z.int(),
  model: z.string(),
  choices: z.array(
    z.object({
      index: count,
      message: z.object({ role: z.literal('assistant'), content: z.string(), refusal: z.null() }),
      logprobs: z.object({ content: z.array(chatToken), refusal: z.null() }).nullable(),
      finish_reason: finishReason,
      stop_reason: stopReason,
      token_ids: z.array(count).optional(),
    }),
  ),
  usage,
  prompt_logprobs: promptLogprobs.optional(),
  prompt_token_ids: z.array(count).optional(),
});

export const responseAnswer = z.looseObject({
  id: z.string(),
  object: z.literal('response'),
  created_at: z.int(),
  status: z.enum(['completed', 'incomplete', 'cancelled']),
  error: z.null(),
  incomplete_details: z.object({ reason: z.literal('max_output_tokens') }).nullable(),
  model: z.string(),
  output: z.array(
    z.object({
      id: z.string(),
      type: z.literal('message'),
      status: z.enum(['completed', 'incomplete']),
      role: z.literal('assistant'),
      content: z.array(
        z.object({
          type: z.literal('output_text'),
          text: z.string(),
          annotations: z.array(z.unknown()),
          logprobs: z.array(chatToken),
        }),
      ),
    }),
  ),
  usage: z.object({
    input_tokens: count,
    input_tokens_details: z.object({ cached_tokens: count }),
    output_tokens: count,
    output_tokens_details: z.object({ reasoning_tokens: count }),
    total_tokens: count,
  }),
});

export const renderAnswer = z.object({
  object: z.literal('rendered_request'),
  model: z.string(),
  prompts: z.array(
    z.object({
      index: count,
      prompt: z.string(),
      token_ids: z.array(count),
      token_strs: z.array(z.string()),
      max_tokens: count,
    }),
  ),
  choices: z.int().min(1),
  sampling: z.record(z.string(), z.unknown()),
  min_tokens: count,
  stop: z.array(z.string()),
  stop_token_ids: z.array(count),
  priority: z.int(),
});

export const tokenizeAnswer = z.object({
  count,
  max_model_len: count,
  tokens: z.array(count),
  token_strs: z.array(z.string()).nullable(),
});

export const detokenizeAnswer = z.object({ prompt: z.string() });

export const modelAnswer = z.object({
  id: z.string(),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.string(),
  root: z.string(),
  parent: z.null(),
  max_model_len: count,
});

export const modelsAnswer = z.object({ object: z.literal('list'), data: z.array(modelAnswer) });

export const cancelAnswer = z.object({
  id: z.string(),
  object: z.literal('request.cancelled'),
  cancelled: z.int().min(1),
});

export const cacheResetAnswer = z.object({ object: z.literal('cache.reset') });

export const versionAnswer = z.object({ version: z.string() });

/** /health and /ready: numbers for people beside the status. */
export const healthAnswer = z.looseObject({ status: z.string() });

export const documentAnswer = z.looseObject({ openapi: z.string() });
