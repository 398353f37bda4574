/** POST /v1/responses: OpenAI's newer endpoint, for text. Nothing is stored, so every request brings its whole input. */
import { Hono } from 'hono';
import { answer } from '../answer.js';
import { conversationTokens } from '../chat-prompt.js';
import type { AppContext, AppEnv, RouteDeps } from '../context.js';
import { clip, invalid } from '../errors.js';
import type { Job } from '../generation.js';
import { readRequest } from '../generation-request.js';
import { checkToolChoice, choiceOptions, type ParamContext, requestTemplate, roomFor, truncate } from '../params.js';
import { renderJob } from '../render.js';
import { ResponsesFormat } from '../responses-format.js';
import { type ResponsesBody, responsesBody, responsesMessages, responsesTools } from '../schemas/responses.js';

export function responsesRoutes(deps: RouteDeps): Hono<AppEnv> {
  const app = new Hono<AppEnv>();

  const prepare = async (c: AppContext) => {
    const { body, context } = await readRequest(c, deps, responsesBody);
    check(body);
    return { body, job: await responsesJob(body, context) };
  };

  app.post('/v1/responses/render', async (c) => renderJob(c, deps, (await prepare(c)).job));

  app.post('/v1/responses', async (c) => {
    const { body, job } = await prepare(c);
    const format = new ResponsesFormat({
      id: `resp_${c.var.requestId}`,
      messageId: `msg_${c.var.requestId}`,
      created: Math.floor(Date.now() / 1000),
      request: repeated(body, job, deps.model.id),
      logprobs: wantsLogprobs(body),
    });
    return answer(c, deps, job, format, body.stream ?? false);
  });
  return app;
}

function wantsLogprobs(body: ResponsesBody): boolean {
  return (body.top_logprobs ?? 0) > 0 || (body.include ?? []).includes('message.output_text.logprobs');
}

function check(body: ResponsesBody): void {
  for (const key of ['previous_response_id', 'conversation', 'prompt'] as const) {
    if (body[key] !== undefined && body[key] !== null) {
      throw invalid(key, `'${key}' is not supported: responses are not stored, so send the whole input.`);
    }
  }
  if (body.background) throw invalid('background', "'background' is not supported: responses are not stored.");
  checkToolChoice(body.tool_choice);
  const format = body.text?.format?.type;
  if (format !== undefined && format !== 'text') {
    throw invalid('text.format', `'text.format' of type '${clip(format)}' is not supported: only text is.`);
  }
}

async function responsesJob(body: ResponsesBody, context: ParamContext): Promise<Job> {
  const template = await requestTemplate(body, context);
  const tools = responsesTools(body.tools);
  const rendered = await conversationTokens(responsesMessages(body), { ...body, tools }, context);
  const keep = body.truncate_prompt_tokens ?? (body.truncation === 'auto' ? -1 : undefined);
  const prompt = truncate(rendered, keep, context.maxModelLen);
  const room = roomFor(prompt, 'input', context.maxModelLen);
  const logprobs = wantsLogprobs(body);
  return {
    requests: [
      {
        ...template,
        prompt,
        choices: 1,
        maxTokens: Math.min(body.max_output_tokens ?? room, room),
        logprobs: logprobs ? (body.top_logprobs ?? 0) : undefined,
        promptLogprobs: undefined,
      },
    ],
    choice: choiceOptions(body, logprobs),
  };
}

/** What a response repeats of its request, defaults filled in. */
function repeated(body: ResponsesBody, job: Job, model: string): object {
  const { temperature, topP } = job.requests[0]!.sampling;
  return {
    model,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    metadata: body.metadata ?? {},
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: null,
    reasoning: body.reasoning ?? { effort: null, summary: null },
    store: false,
    temperature,
    text: body.text ?? { format: { type: 'text' } },
    tool_choice: body.tool_choice ?? 'auto',
    tools: body.tools ?? [],
    top_logprobs: body.top_logprobs ?? 0,
    top_p: topP,
    truncation: body.truncation ?? 'disabled',
    background: false,
    ...(body.user && { user: body.user }),
  };
}
