/** POST /v1/completions. */
import { Hono } from 'hono';
import type { TokenLogprobs } from '../../engine/protocol.js';
import type { TextModel } from '../../text/text-model.js';
import { answer } from '../answer.js';
import { CompletionFormat } from '../completion-format.js';
import type { AppContext, AppEnv, RouteDeps } from '../context.js';
import { promptEntries, promptLogprobsJson } from '../echo.js';
import { invalid } from '../errors.js';
import { answerOptions } from '../format.js';
import type { Job } from '../generation.js';
import { readRequest } from '../generation-request.js';
import {
  checkTogether,
  checkTokens,
  choiceOptions,
  type ParamContext,
  requestTemplate,
  roomFor,
  truncate,
} from '../params.js';
import { renderJob } from '../render.js';
import { type CompletionBody, completionBody, type Prompt, promptList } from '../schemas/completions.js';

const defaultMaxTokens = 16;

export function completionRoutes(deps: RouteDeps): Hono<AppEnv> {
  const app = new Hono<AppEnv>();

  const prepare = async (c: AppContext) => {
    const { body, context } = await readRequest(c, deps, completionBody);
    const prompts = promptList(body.prompt);
    check(body, prompts.length);
    return { body, prompts, job: await completionJob(body, prompts, context) };
  };

  app.post('/v1/completions/render', async (c) => renderJob(c, deps, (await prepare(c)).job));

  app.post('/v1/completions', async (c) => {
    const { body, prompts, job } = await prepare(c);
    const skipSpecialTokens = job.choice.skipSpecialTokens;
    const format = new CompletionFormat({
      ...answerOptions(`cmpl-${c.var.requestId}`, deps.model.id, body),
      n: body.n ?? 1,
      logprobs: typeof body.logprobs === 'number',
      echo: body.echo ? job.requests.map(({ prompt }, i) => echoText(prompts[i]!, prompt, body, deps.text)) : undefined,
      promptEntries: (prompt, generation) =>
        promptEntries(deps.text, job.requests[prompt]!.prompt, generation.promptLogprobs[prompt]!, skipSpecialTokens),
      promptLogprobs: (prompt, generation) =>
        typeof body.prompt_logprobs === 'number'
          ? promptLogprobsJson(deps.text, narrow(generation.promptLogprobs[prompt]!, body.prompt_logprobs))
          : undefined,
    });
    return answer(c, deps, job, format, body.stream ?? false);
  });
  return app;
}

/** Echo and prompt_logprobs may ask for different numbers of alternatives of the same tokens. */
function narrow(logprobs: readonly (TokenLogprobs | null)[], count: number): (TokenLogprobs | null)[] {
  return logprobs.map((known) => known && { ...known, top: known.top.slice(0, count) });
}

function check(body: CompletionBody, prompts: number): void {
  checkTogether(body, body.max_tokens ?? defaultMaxTokens, prompts);
  const n = body.n ?? 1;
  const bestOf = body.best_of ?? n;
  if (bestOf < n) throw invalid('best_of', `'best_of' must be at least 'n', which is ${n}.`);
  if (bestOf > n && body.stream) throw invalid('best_of', "'best_of' beyond 'n' cannot be streamed.");
  checkTogether({ ...body, n: bestOf }, undefined, prompts);
  if (body.suffix) throw invalid('suffix', "'suffix' is not supported.");
}

async function completionJob(body: CompletionBody, prompts: readonly Prompt[], context: ParamContext): Promise<Job> {
  const template = await requestTemplate(body, context);
  const n = body.n ?? 1;
  const choices = body.best_of ?? n;
  const logprobs = body.logprobs ?? undefined;
  const echoed = body.echo ? logprobs : undefined;
  const requests = await Promise.all(
    prompts.map(async (prompt, index) => {
      const param = prompts.length > 1 ? `prompt[${index}]` : 'prompt';
      const tokens = truncate(
        await promptTokens(prompt, param, body, context),
        body.truncate_prompt_tokens,
        context.maxModelLen,
      );
      const room = roomFor(tokens, param, context.maxModelLen);
      return {
        ...template,
        prompt: tokens,
        choices,
        maxTokens: Math.min(body.max_tokens ?? defaultMaxTokens, room),
        logprobs: logprobs ?? (choices > n ? 0 : undefined),
        promptLogprobs: most(echoed, body.prompt_logprobs ?? undefined),
      };
    }),
  );
  return { requests, choice: choiceOptions(body, logprobs !== undefined) };
}

function most(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.max(a, b);
}

async function promptTokens(
  prompt: Prompt,
  param: string,
  body: CompletionBody,
  { text, vocabSize }: ParamContext,
): Promise<Int32Array> {
  if (typeof prompt === 'string') {
    return text.encode(prompt, {
      addSpecialTokens: body.add_special_tokens ?? true,
      parseSpecialTokens: body.parse_special_tokens ?? true,
    });
  }
  return Int32Array.from(checkTokens(prompt, param, vocabSize));
}

/** A prompt given as text is repeated as it is; one cut short, or given as tokens, as what its tokens say. */
function echoText(prompt: Prompt, tokens: Int32Array, body: CompletionBody, text: TextModel): string {
  const truncated = body.truncate_prompt_tokens !== undefined && body.truncate_prompt_tokens !== null;
  if (typeof prompt === 'string' && !truncated) return prompt;
  return text.decode(tokens, { skipSpecialTokens: body.skip_special_tokens ?? true });
}
