/**
 * Texts and chats of a checkpoint's tokenizer against @huggingface/transformers, which reads the same files by itself. The
 * server takes the two libraries below it, and does the rest on its own (docs/architecture.md).
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { AutoTokenizer, env } from '@huggingface/transformers';
import { beforeAll, describe, expect, it } from 'vitest';
import type { TextModel } from '../../src/text/text-model.js';
import { readFixture, tinyModel } from './models.js';

const models = new URL('../fixtures/models/', import.meta.url);
env.allowRemoteModels = false;
env.localModelPath = fileURLToPath(models);

const { cases } = readFixture<{ cases: { text: string }[] }>('golden/smollm2-tokenizer.json');
const chats = readFixture<{ messages: { role: string; content: string }[] }[]>('golden/smollm2-chat.json');
/** transformers.js looks for it in tokenizer_config.json only. */
const chat_template = readFileSync(new URL('tiny-llama/chat_template.jinja', models), 'utf8');

// All tiny models have the same tokenizer.
let theirs: Awaited<ReturnType<typeof AutoTokenizer.from_pretrained>>;
let ours: TextModel;
beforeAll(async () => {
  theirs = await AutoTokenizer.from_pretrained('tiny-llama');
  ours = await tinyModel('llama');
});

describe.each(cases)('$text', ({ text }) => {
  it.each([true, false])('has the same ids (special tokens added: %s)', async (add) => {
    const ids = await ours.encode(text, { addSpecialTokens: add, parseSpecialTokens: true });
    expect([...ids]).toEqual(theirs.encode(text, { add_special_tokens: add }));
  });

  it('comes back the same', () => {
    const ids = theirs.encode(text, { add_special_tokens: false });
    const decoded = ours.decode(ids, { skipSpecialTokens: false });
    // The library decodes no empty lists.
    expect(decoded).toBe(ids.length === 0 ? '' : theirs.decode(ids, { clean_up_tokenization_spaces: false }));
  });
});

describe.each(chats)('$text', ({ messages }) => {
  it.each([true, false])('is the same text and the same ids (header of an answer: %s)', async (header) => {
    const options = { addGenerationPrompt: header, continueFinalMessage: false };
    const settings = { chat_template, add_generation_prompt: header };
    expect(ours.renderChat(messages, options)).toBe(
      theirs.apply_chat_template(messages, { ...settings, tokenize: false }),
    );
    expect([...(await ours.encodeChat(messages, options))]).toEqual(
      theirs.apply_chat_template(messages, { ...settings, return_tensor: false, return_dict: false }),
    );
  });
});
