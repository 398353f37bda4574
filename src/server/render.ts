/** What a request would be to the engine, without running it: prompts as text and tokens, and every parameter settled. */
import type { TextModel } from '../text/text-model.js';
import type { AppContext, RouteDeps } from './context.js';
import { invalid } from './errors.js';
import type { Job } from './generation.js';

export function renderJob(c: AppContext, { text, model }: RouteDeps, job: Job): Response {
  const [request] = job.requests;
  if (request === undefined) throw invalid('prompt', "'prompt' must not be empty.");
  const { sampling } = request;
  return c.json({
    object: 'rendered_request',
    model: model.id,
    prompts: job.requests.map(({ prompt, maxTokens }, index) => ({
      index,
      prompt: text.decode(prompt, { skipSpecialTokens: false }),
      token_ids: [...prompt],
      token_strs: tokenTexts(text, prompt),
      max_tokens: maxTokens,
    })),
    choices: request.choices,
    sampling: {
      temperature: sampling.temperature,
      top_k: sampling.topK,
      top_p: sampling.topP,
      min_p: sampling.minP,
      seed: sampling.seed,
      presence_penalty: sampling.presencePenalty,
      frequency_penalty: sampling.frequencyPenalty,
      repetition_penalty: sampling.repetitionPenalty,
      logit_bias: Object.fromEntries(sampling.logitBias),
      allowed_token_ids: sampling.allowedTokenIds,
      bad_words_token_ids: sampling.badWords,
    },
    min_tokens: request.minTokens,
    stop: job.choice.stop,
    stop_token_ids: request.endTokens,
    priority: request.priority,
  });
}

/** Each token as the vocabulary writes it. */
export function tokenTexts(text: TextModel, tokens: Int32Array): string[] {
  return Array.from(tokens, (token) => text.tokenText(token));
}
