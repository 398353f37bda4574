/** The body of POST /v1/responses, and its input as messages. */
import { z } from 'zod';
import type { ChatMessage } from '../../text/text-model.js';
import { requestLimits } from '../config.js';
import { clip, invalid } from '../errors.js';
import { content, contentText } from './content.js';
import { encodingFields, flag, roles, sharedFields, textFormat, toolChoice } from './shared.js';

const loose = z.record(z.string(), z.unknown()).nullish();

/** Checked later, for a message that says why. */
const unsupported = z.unknown().meta({ type: 'null' }).optional();

const strings = (...names: string[]) => Object.fromEntries(names.map((name) => [name, { type: 'string' }]));
const itemOf = (type: string, properties: object, required: readonly string[]) => ({
  type: 'object',
  properties: { type: { const: type }, ...properties },
  required,
});
const { $schema: _, ...contentSchema } = z.toJSONSchema(content, { io: 'input' });
const messageFields = { role: { enum: roles }, content: contentSchema };

const item = z
  .looseObject({
    type: z.string().nullish(),
    role: z.enum(roles, { error: `must be one of ${roles.join(', ')}` }).nullish(),
  })
  // What each kind needs is checked one by one later.
  .meta({
    anyOf: [
      itemOf('message', { ...messageFields, type: { enum: ['message', null] } }, ['role', 'content']),
      itemOf('function_call', strings('call_id', 'name', 'arguments'), ['type', 'call_id', 'name', 'arguments']),
      itemOf('function_call_output', { ...strings('call_id'), output: contentSchema }, ['type', 'call_id', 'output']),
      itemOf('reasoning', {}, ['type']),
    ],
  });

const {
  // What OpenAI's endpoint has under other names, or has not.
  n,
  max_tokens,
  min_tokens,
  stream_options,
  prompt_logprobs,
  return_token_ids,
  ...common
} = sharedFields;

export const responsesBody = z.object({
  ...common,
  ...encodingFields,
  input: z.union([z.string(), z.array(item).min(1)], { error: 'must be a string or an array of items' }),
  instructions: z.string().nullish(),
  max_output_tokens: z.int().min(1).nullish(),
  top_logprobs: z.int().min(0).max(requestLimits.logprobs).nullish(),
  include: z.array(z.string()).nullish(),
  tools: z.array(z.looseObject({ type: z.string().meta({ const: 'function' }) })).nullish(),
  tool_choice: toolChoice,
  parallel_tool_calls: flag,
  text: z.looseObject({ format: textFormat }).nullish(),
  reasoning: loose,
  truncation: z.enum(['auto', 'disabled'], { error: 'must be auto or disabled' }).nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  store: flag,
  background: z.boolean().meta({ const: false }).nullish(),
  previous_response_id: unsupported,
  conversation: unsupported,
  prompt: unsupported,
  chat_template_kwargs: loose,
});

export type ResponsesBody = z.output<typeof responsesBody>;
type Item = z.output<typeof item>;

/** Instructions and input as the chat template takes them. Throws ApiError (400) for items that are no text. */
export function responsesMessages(body: ResponsesBody): ChatMessage[] {
  const messages: ChatMessage[] = [];
  if (body.instructions) messages.push({ role: 'system', content: body.instructions });
  if (typeof body.input === 'string') {
    messages.push({ role: 'user', content: body.input });
    return messages;
  }
  for (const [index, item] of body.input.entries()) add(messages, item, `input[${index}]`);
  return messages;
}

function add(messages: ChatMessage[], item: Item, path: string): void {
  switch (item.type ?? 'message') {
    case 'message':
      if (!item.role) throw invalid(`${path}.role`, `'${path}.role' is required.`);
      messages.push({ role: item.role, content: textOf(item, 'content', path) });
      break;
    case 'function_call':
      addCall(messages, item, path);
      break;
    case 'function_call_output':
      messages.push({
        role: 'tool',
        content: textOf(item, 'output', path),
        tool_call_id: string(item, 'call_id', path),
      });
      break;
    case 'reasoning':
      break;
    default:
      throw invalid(`${path}.type`, `'${path}' is of type '${clip(String(item.type))}', which is not supported.`);
  }
}

/** Calls that follow each other are one turn of the assistant. */
function addCall(messages: ChatMessage[], item: Item, path: string): void {
  const call = {
    id: string(item, 'call_id', path),
    type: 'function',
    function: { name: string(item, 'name', path), arguments: string(item, 'arguments', path) },
  };
  const last = messages.at(-1);
  const calls = last?.role === 'assistant' ? last['tool_calls'] : undefined;
  if (last !== undefined && Array.isArray(calls)) {
    messages[messages.length - 1] = { ...last, tool_calls: [...calls, call] };
  } else {
    messages.push({ role: 'assistant', content: '', tool_calls: [call] });
  }
}

function textOf(item: Item, key: string, path: string): string {
  const { success, data } = content.safeParse(item[key]);
  if (!success) throw invalid(`${path}.${key}`, `'${path}.${key}' must be a string or an array of parts.`);
  return contentText(data, `${path}.${key}`);
}

function string(item: Item, key: string, path: string): string {
  const value = item[key];
  if (typeof value !== 'string') throw invalid(`${path}.${key}`, `'${path}.${key}' must be a string.`);
  return value;
}

/** Tools as chat templates know them: the function in an object of its own. Throws ApiError (400) for built-in tools. */
export function responsesTools(tools: ResponsesBody['tools']): { type: string; function: object }[] {
  return (tools ?? []).map(({ type, ...definition }, index) => {
    if (type !== 'function') {
      throw invalid(
        `tools[${index}].type`,
        `'tools[${index}]' is of type '${clip(type)}', but only functions are known.`,
      );
    }
    return { type, function: definition };
  });
}
