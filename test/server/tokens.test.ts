/** /tokenize, /detokenize and the dry runs, on a text model whose tokens can be counted by hand. */
import { describe, expect, it } from 'vitest';
import { bos, byteTokens, end, FakeText, turn, vocabSize, word } from '../support/fake-text.js';
import { type Json, testApp } from '../support/server.js';

const app = testApp({ text: new FakeText({ addBos: true }) });
async function post(path: string, body: object): Promise<[status: number, body: Json]> {
  const response = await app.post(path, body);
  return [response.status, await response.json()];
}

describe('/tokenize', () => {
  it('takes a text, as completions do', async () => {
    expect(await post('/tokenize', { prompt: 'Hello world<|end|>', return_token_strs: true })).toEqual([
      200,
      {
        count: 4,
        max_model_len: 256,
        tokens: [bos, word('Hello'), word(' world'), end],
        token_strs: ['<s>', 'Hello', ' world', '<|end|>'],
      },
    ]);
    const [, plain] = await post('/tokenize', {
      prompt: '<s>',
      add_special_tokens: false,
      parse_special_tokens: false,
    });
    expect(plain).toEqual({ count: 3, max_model_len: 256, tokens: byteTokens('<s>'), token_strs: null });
    expect((await post('/tokenize', { prompt: '', add_special_tokens: false }))[1].tokens).toEqual([]);
  });

  it('takes a conversation, as chats do', async () => {
    const messages = [{ role: 'user', content: 'Hello' }];
    const [, { tokens }] = await post('/tokenize', { messages });
    expect(tokens).toEqual([turn, ...byteTokens('user\n'), word('Hello'), end, turn, ...byteTokens('assistant\n')]);
    const [, bare] = await post('/tokenize', { messages, add_generation_prompt: false, add_special_tokens: true });
    expect(bare.tokens).toEqual([bos, turn, ...byteTokens('user\n'), word('Hello'), end]);
    expect((await app.chat({ messages })).status).toBe(200);
    expect([...app.engine.requests.at(-1)!.prompt]).toEqual(tokens);
  });

  it.each([
    [{}, 'prompt'],
    [{ prompt: 'a', messages: [{ role: 'user', content: 'a' }] }, 'prompt'],
    [{ prompt: 3 }, 'prompt'],
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'banana', content: 'a' }] }, 'messages[0].role'],
    [{ messages: [{ role: 'user', content: 'raise' }] }, 'messages'],
    [{ prompt: 'a', return_token_strs: 1 }, 'return_token_strs'],
  ])('refuses %j', async (body, param) => {
    const [status, { error }] = await post('/tokenize', body);
    expect([status, error.param]).toEqual([400, param]);
  });
});

describe('/detokenize', () => {
  it('is the inverse of /tokenize', async () => {
    for (const prompt of ['Hello world', 'größer 🎉', ' one', '<|end|>', '', '    .', ' ,', "n't", '\n\n  -']) {
      const [, { tokens }] = await post('/tokenize', { prompt });
      expect(await post('/detokenize', { tokens })).toEqual([200, { prompt }]);
    }
  });

  it('leaves special tokens out where asked to', async () => {
    const tokens = [word('Hello'), end];
    expect((await post('/detokenize', { tokens }))[1].prompt).toBe('Hello<|end|>');
    expect((await post('/detokenize', { tokens, skip_special_tokens: true }))[1].prompt).toBe('Hello');
  });

  it.each([
    [{}, 'tokens'],
    [{ tokens: 'a' }, 'tokens'],
    [{ tokens: [-1] }, 'tokens[0]'],
    [{ tokens: [1.5] }, 'tokens[0]'],
    [{ tokens: [vocabSize] }, 'tokens'],
  ])('refuses %j', async (body, param) => {
    const [status, { error }] = await post('/detokenize', body);
    expect([status, error.param]).toEqual([400, param]);
  });

  it('asks for the model that is served', async () => {
    for (const path of ['/tokenize', '/detokenize']) {
      expect((await post(path, { model: 'other', prompt: 'a', tokens: [] }))[0]).toBe(404);
    }
  });
});

describe('a dry run', () => {
  it('shows what a completion would be, and runs nothing', async () => {
    const before = app.engine.requests.length;
    const body = { prompt: ['Hello', 'A<|end|>'], max_tokens: 1000, temperature: 0.5, seed: 7, stop: 'x', n: 2 };
    const [status, json] = await post('/v1/completions/render', body);
    expect(status).toBe(200);
    expect(json).toMatchObject({
      object: 'rendered_request',
      model: 'fake-model',
      prompts: [
        {
          index: 0,
          prompt: '<s>Hello',
          token_ids: [bos, word('Hello')],
          token_strs: ['<s>', 'Hello'],
          max_tokens: 254,
        },
        { index: 1, prompt: '<s>A<|end|>', token_ids: [bos, 65, end], max_tokens: 253 },
      ],
      choices: 2,
      sampling: { temperature: 0.5, top_k: 0, top_p: 1, seed: 7, repetition_penalty: 1 },
      stop: ['x'],
      stop_token_ids: [end],
    });
    expect(app.engine.requests).toHaveLength(before);
  });

  it('shows the rendered conversation of a chat', async () => {
    const messages = [{ role: 'user', content: 'Hello' }];
    const [, json] = await post('/v1/chat/completions/render', { messages, truncate_prompt_tokens: 11 });
    expect(json.prompts[0].prompt).toBe('<|turn|>assistant\n');
    expect(json.prompts[0].token_ids).toHaveLength(11);
  });

  it('refuses what the request itself would be refused for', async () => {
    expect((await post('/v1/completions/render', { prompt: 'a', temperature: -1 }))[1].error.param).toBe('temperature');
    expect((await post('/v1/chat/completions/render', { messages: [] }))[0]).toBe(400);
  });
});
