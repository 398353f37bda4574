/** The body of POST /v1/chat/completions. */
import { z } from 'zod';
import type { ChatMessage } from '../../text/text-model.js';
import { requestLimits } from '../config.js';
import { invalid } from '../errors.js';
import { content, contentText } from './content.js';
import { encodingFields, flag, roles, sharedFields, textFormat, toolChoice } from './shared.js';

const message = z.looseObject({
  role: z.enum(roles, { error: `must be one of ${roles.join(', ')}` }),
  content: content.nullish(),
});

/** What makes a prompt of a conversation. */
export const chatFields = {
  messages: z.array(message).min(1).max(requestLimits.messages),
  add_generation_prompt: flag,
  continue_final_message: flag,
  chat_template_kwargs: z.record(z.string(), z.unknown()).nullish(),
  tools: z.array(z.looseObject({ type: z.string() })).nullish(),
  tool_choice: toolChoice,
} as const;

const conversation = z.object({ ...chatFields, ...encodingFields }).omit({ messages: true });
/** How a conversation is rendered and encoded. */
export type ConversationOptions = z.output<typeof conversation>;

export const chatBody = z.object({
  ...sharedFields,
  ...chatFields,
  max_completion_tokens: z.int().min(1).nullish(),
  max_tokens: z.int().min(1).nullish(),
  logprobs: flag,
  top_logprobs: z.int().min(0).max(requestLimits.logprobs).nullish(),
  response_format: textFormat,
});

export type ChatBody = z.output<typeof chatBody>;

/** Messages as templates take them: content is text, its parts joined with line ends; every other key goes along. */
export function chatMessages(messages: ChatBody['messages']): ChatMessage[] {
  return messages.map((item, index) => {
    const path = `messages[${index}].content`;
    const { role, content: value } = item;
    if (value === undefined || value === null) {
      if (role !== 'assistant') throw invalid(path, `'${path}' must be given for the role ${role}.`);
      return { ...item, content: '' };
    }
    return { ...item, content: contentText(value, path) };
  });
}
