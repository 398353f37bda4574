/** POST /v1/chat/completions. */
import { Hono } from 'hono';
import { answer } from '../answer.js';
import { ChatFormat } from '../chat-format.js';
import { conversationTokens } from '../chat-prompt.js';
import type { AppContext, AppEnv, RouteDeps } from '../context.js';
import { promptLogprobsJson } from '../echo.js';
import { clip, invalid } from '../errors.js';
import { answerOptions } from '../format.js';
import type { Job } from '../generation.js';
import { readRequest } from '../generation-request.js';
import {
  checkTogether,
  checkToolChoice,
  choiceOptions,
  type ParamContext,
  requestTemplate,
  roomFor,
  truncate,
} from '../params.js';
import { renderJob } from '../render.js';
import { type ChatBody, chatBody, chatMessages } from '../schemas/chat.js';

export function chatRoutes(deps: RouteDeps): Hono<AppEnv> {
  const app = new Hono<AppEnv>();

  const prepare = async (c: AppContext) => {
    const { body, context } = await readRequest(c, deps, chatBody);
    check(body);
    return { body, job: await chatJob(body, context) };
  };

  app.post('/v1/chat/completions/render', async (c) => renderJob(c, deps, (await prepare(c)).job));

  app.post('/v1/chat/completions', async (c) => {
    const { body, job } = await prepare(c);
    const format = new ChatFormat({
      ...answerOptions(`chatcmpl-${c.var.requestId}`, deps.model.id, body),
      logprobs: body.logprobs ?? false,
      promptLogprobs: (generation) =>
        typeof body.prompt_logprobs === 'number'
          ? promptLogprobsJson(deps.text, generation.promptLogprobs[0]!)
          : undefined,
    });
    return answer(c, deps, job, format, body.stream ?? false);
  });
  return app;
}

function maxTokens(body: ChatBody): number | undefined {
  return body.max_completion_tokens ?? body.max_tokens ?? undefined;
}

function check(body: ChatBody): void {
  checkTogether(body, maxTokens(body), 1);
  if (typeof body.top_logprobs === 'number' && body.top_logprobs > 0 && !body.logprobs) {
    throw invalid('top_logprobs', "'top_logprobs' is only allowed when 'logprobs' is true.");
  }
  checkToolChoice(body.tool_choice);
  const format = body.response_format?.type;
  if (format !== undefined && format !== 'text') {
    throw invalid('response_format', `'response_format' of type '${clip(format)}' is not supported: only text is.`);
  }
}

async function chatJob(body: ChatBody, context: ParamContext): Promise<Job> {
  const template = await requestTemplate(body, context);
  const rendered = await conversationTokens(chatMessages(body.messages), body, context);
  const prompt = truncate(rendered, body.truncate_prompt_tokens, context.maxModelLen);
  const room = roomFor(prompt, 'messages', context.maxModelLen);
  return {
    requests: [
      {
        ...template,
        prompt,
        choices: body.n ?? 1,
        maxTokens: Math.min(maxTokens(body) ?? room, room),
        logprobs: body.logprobs ? (body.top_logprobs ?? 0) : undefined,
        promptLogprobs: body.prompt_logprobs ?? undefined,
      },
    ],
    choice: choiceOptions(body, body.logprobs ?? false),
  };
}
