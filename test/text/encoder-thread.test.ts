import { describe, expect, it } from 'vitest';
import { EncoderThread } from '../../src/text/encoder-thread.js';
import { PromptEncoder, type TextPrompt } from '../../src/text/prompt-encoder.js';
import { ChatTemplateError } from '../../src/text/text-model.js';
import { compileTokenizer } from '../../src/text/tokenizer/compile.js';
import { Encoder } from '../../src/text/tokenizer/encoder.js';
import { readFixture } from './models.js';

const { tokenizer } = readFixture<{ tokenizer: unknown }>('tokenizers/llama3.json');
const { encoder } = compileTokenizer(tokenizer, {}, 1024);
const templates = {
  plain: "{% for m in messages %}{{ m.content }}{% endfor %}{{ raise_exception('no') if extra }}",
  withTools: '{{ tools|length }}',
  variables: {},
};
const raw = { addSpecialTokens: false, parseSpecialTokens: true };

const textOf = (text: string, options: TextPrompt['options']): TextPrompt => ({ kind: 'text', text, options });

describe('the encoder thread', () => {
  it('encodes as the calling thread does, each text its own', async () => {
    const thread = new EncoderThread({ encoder, templates });
    const local = new Encoder(encoder);
    const texts = Array.from({ length: 20 }, (_, i) => `text ${i} <think>東京🙂</think><|end|>`.repeat(i));
    const requests = texts.map((_, i) => ({ ...raw, addSpecialTokens: i % 2 === 0, guarded: i % 3 === 0 ? [30] : [] }));
    const encoded = await Promise.all(texts.map((text, i) => thread.encode(textOf(text, requests[i]!))));
    expect(encoded).toEqual(texts.map((text, i) => local.encode(text, requests[i]!)));
  });

  it('renders chats, and says what the template refuses', async () => {
    const thread = new EncoderThread({ encoder, templates });
    const options = { addGenerationPrompt: true, continueFinalMessage: false };
    const chat = (more: object) =>
      thread.encode({
        kind: 'chat',
        messages: [{ role: 'user', content: 'a <|end|> b' }],
        options: { ...options, ...more },
      });
    const local = new PromptEncoder({ encoder, templates });
    const here = local.encode(textOf('a <|end|> b', { ...raw, parseSpecialTokens: false }));
    expect(await chat({})).toEqual(here);
    expect(await chat({ tools: [{}, {}] })).toEqual(local.encode(textOf('2', raw)));
    const refused = await chat({ variables: { extra: true } }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ChatTemplateError);
    expect((refused as Error).message).toBe('chat template: no');
    expect(await chat({})).toEqual(here);
  });

  it('rejects every waiting text when the thread dies, and starts another', async () => {
    const thread = new EncoderThread({ encoder: { ...encoder, preTokenizer: { type: 'Nowhere' } }, templates });
    for (let attempt = 0; attempt < 2; attempt++) {
      const waiting = [thread.encode(textOf('a', raw)), thread.encode(textOf('b', raw))];
      for (const result of await Promise.allSettled(waiting)) {
        expect(result).toMatchObject({ status: 'rejected', reason: { message: expect.stringContaining('Nowhere') } });
      }
    }
  });
});
