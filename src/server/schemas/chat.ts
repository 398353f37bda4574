/** The body of POST /v1/chat/completions. */
import { z } from 'zod';
import type { ChatMessage } from '../../text/text-model.js';
import { requestLimits } from '../config.js';
import { clip, invalid } from '../errors.js';
import { encodingFields, flag, sharedFields } from './shared.js';

const roles = ['system', 'developer', 'user', 'assistant', 'tool', 'function'] as const;

const message = z.looseObject({
  role: z.enum(roles, { error: `must be one of ${roles.join(', ')}` }),
  content: z
    .union([z.string(), z.array(z.looseObject({ type: z.string() }))], {
      error: 'must be a string or an array of parts such as {"type":"text","text":"..."}',
    })
    .nullish(),
});

/** What makes a prompt of a conversation. */
export const chatFields = {
  messages: z.array(message).min(1),
  add_generation_prompt: flag,
  continue_final_message: flag,
  chat_template_kwargs: z.record(z.string(), z.unknown()).nullish(),
  tools: z.array(z.looseObject({ type: z.string() })).nullish(),
  tool_choice: z.unknown().optional(),
} as const;

const conversation = z.object({ ...chatFields, ...encodingFields });
export type Conversation = z.output<typeof conversation>;

export const chatBody = z.object({
  ...sharedFields,
  ...chatFields,
  max_completion_tokens: z.int().min(1).nullish(),
  max_tokens: z.int().min(1).nullish(),
  logprobs: flag,
  top_logprobs: z.int().min(0).max(requestLimits.logprobs).nullish(),
  response_format: z.looseObject({ type: z.string() }).nullish(),
});

export type ChatBody = z.output<typeof chatBody>;

/** Messages as templates take them: content is text, its parts joined with line ends; every other key goes along. */
export function chatMessages(messages: ChatBody['messages']): ChatMessage[] {
  return messages.map((item, index) => ({ ...item, content: contentText(item, index) }));
}

function contentText({ role, content }: ChatBody['messages'][number], index: number): string {
  const path = `messages[${index}].content`;
  if (typeof content === 'string') return content;
  if (content === undefined || content === null) {
    if (role === 'assistant') return '';
    throw invalid(path, `'${path}' must be given for the role ${role}.`);
  }
  const texts = content.map((part, at) => {
    const text = part.type === 'refusal' ? part['refusal'] : part['text'];
    if (part.type !== 'text' && part.type !== 'refusal') {
      throw invalid(
        `${path}[${at}].type`,
        `'${path}[${at}]' is of type '${clip(part.type)}', but only text is supported.`,
      );
    }
    if (typeof text !== 'string') throw invalid(`${path}[${at}].text`, `'${path}[${at}].text' must be a string.`);
    return text;
  });
  return texts.join('\n');
}
