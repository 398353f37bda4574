/** The bodies of POST /tokenize and /detokenize, with vLLM's names. */
import { z } from 'zod';
import { chatFields } from './chat.js';
import { encodingFields, flag, tokenId } from './shared.js';

export const tokenizeBody = z.object({
  model: z.string().nullish(),
  /** Either a text or a conversation. */
  prompt: z.string().nullish(),
  ...chatFields,
  messages: chatFields.messages.nullish(),
  ...encodingFields,
  return_token_strs: flag,
});

export const detokenizeBody = z.object({
  model: z.string().nullish(),
  tokens: z.array(tokenId),
  skip_special_tokens: flag,
});
