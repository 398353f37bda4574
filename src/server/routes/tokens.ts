/** POST /tokenize and /detokenize: text and conversations to token ids and back. */
import { Hono } from 'hono';
import type { TextModel } from '../../text/text-model.js';
import { available, checkModel } from '../availability.js';
import { readJson } from '../body.js';
import { conversationTokens } from '../chat-prompt.js';
import type { AppEnv, RouteDeps } from '../context.js';
import { invalid } from '../errors.js';
import { checkTokens } from '../params.js';
import { tokenTexts } from '../render.js';
import { chatMessages } from '../schemas/chat.js';
import { detokenizeBody, tokenizeBody } from '../schemas/tokens.js';
import { validate } from '../validate.js';

export function tokenRoutes(deps: RouteDeps): Hono<AppEnv> {
  const app = new Hono<AppEnv>();
  const { text } = deps;

  app.post('/tokenize', async (c) => {
    const context = available(deps, c);
    const { prompt, messages, ...body } = validate(tokenizeBody, await readJson(c, deps.config.maxBodyBytes));
    checkModel(deps, body.model);
    const isText = typeof prompt === 'string';
    if (isText === Boolean(messages)) throw invalid('prompt', "'prompt' or 'messages' must be given, and not both.");
    const tokens = isText
      ? await text.encode(prompt, {
          addSpecialTokens: body.add_special_tokens ?? true,
          parseSpecialTokens: body.parse_special_tokens ?? true,
        })
      : await conversationTokens(chatMessages(messages ?? []), body, context);
    return c.json({
      count: tokens.length,
      max_model_len: context.maxModelLen,
      tokens: [...tokens],
      token_strs: body.return_token_strs ? tokenTexts(text, tokens) : null,
    });
  });

  app.post('/detokenize', async (c) => {
    const { vocabSize } = available(deps, c);
    const body = validate(detokenizeBody, await readJson(c, deps.config.maxBodyBytes));
    checkModel(deps, body.model);
    const tokens = checkTokens(body.tokens, 'tokens', vocabSize);
    return c.json({
      prompt: text.decode(await withoutAdded(text, tokens), { skipSpecialTokens: body.skip_special_tokens ?? false }),
    });
  });
  return app;
}

/** Without the BOS that /tokenize puts before a text, so that the two are each other's inverse. */
async function withoutAdded(text: TextModel, tokens: readonly number[]): Promise<readonly number[]> {
  const added = await text.encode('', { addSpecialTokens: true, parseSpecialTokens: false });
  return tokens[0] === added[0] ? tokens.slice(1) : tokens;
}
