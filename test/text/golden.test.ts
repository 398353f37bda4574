import { beforeAll, describe, expect, it } from 'vitest';
import type { TextModel } from '../../src/text/text-model.js';
import { bundledModel, readFixture, TINY_MODELS, tinyModel } from './models.js';

describe('the bundled model', () => {
  let model: TextModel;
  beforeAll(async () => {
    model = await bundledModel();
  });

  const { cases } = readFixture<{ cases: { text: string; ids: number[] }[] }>('golden/smollm2-tokenizer.json');
  it.each(cases)('encodes $text as the reference does', async ({ text, ids }) => {
    expect([...(await model.encode(text, { addSpecialTokens: true, parseSpecialTokens: true }))]).toEqual(ids);
    expect(model.decode(ids, { skipSpecialTokens: false })).toBe(text);
  });

  const chats =
    readFixture<{ messages: { role: string; content: string }[]; text: string; ids: number[] }[]>(
      'golden/smollm2-chat.json',
    );
  it.each(chats)('renders and encodes the chat $text', async ({ messages, text, ids }) => {
    const options = { addGenerationPrompt: true, continueFinalMessage: false };
    expect(model.renderChat(messages, options)).toBe(text);
    expect([...(await model.encodeChat(messages, options))]).toEqual(ids);
    expect([...(await model.encodeChat(messages, { ...options, parseSpecialTokens: true }))]).toEqual(ids);
  });
});

describe.each(TINY_MODELS)('tiny-%s', (name) => {
  const { cases } = readFixture<{ cases: { prompt: string; ids: number[] }[] }>(`models/tiny-${name}/expected.json`);

  it.each(cases)('encodes $prompt as the reference does', async ({ prompt, ids }) => {
    const model = await tinyModel(name);
    expect([...(await model.encode(prompt, { addSpecialTokens: true, parseSpecialTokens: true }))]).toEqual(ids);
    expect(model.decode(ids, { skipSpecialTokens: false })).toBe(prompt);
  });
});
