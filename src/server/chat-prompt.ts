/** A conversation as the chat template takes it, and as token ids. */
import type { ChatMessage, ChatOptions } from '../text/text-model.js';
import { invalid } from './errors.js';
import type { ParamContext } from './params.js';
import type { ConversationOptions } from './schemas/chat.js';

/**
 * Renders and encodes a conversation. Throws ApiError (400) for fields that exclude each other and ChatTemplateError
 * where the template refuses it.
 */
export async function conversationTokens(
  messages: readonly ChatMessage[],
  body: ConversationOptions,
  { text }: ParamContext,
): Promise<Int32Array> {
  if (body.continue_final_message && body.add_generation_prompt) {
    throw invalid('continue_final_message', "'continue_final_message' and 'add_generation_prompt' exclude each other.");
  }
  const continueFinalMessage = body.continue_final_message ?? false;
  const options: ChatOptions = {
    addGenerationPrompt: body.add_generation_prompt ?? !continueFinalMessage,
    continueFinalMessage,
    ...(body.tools && body.tools.length > 0 && body.tool_choice !== 'none' && { tools: body.tools }),
    ...(body.chat_template_kwargs && { variables: body.chat_template_kwargs }),
  };
  return text.encodeChat(messages, {
    ...options,
    addSpecialTokens: body.add_special_tokens ?? false,
    parseSpecialTokens: body.parse_special_tokens ?? false,
  });
}
