/** POST /v1/chat/completions, streamed and whole, on an engine that replays known tokens. */
import { describe, expect, it } from 'vitest';
import { end, word } from '../support/fake-text.js';
import { eventData, type Json, streamed, testApp } from '../support/server.js';

const oneTwo = [word('one'), word(' two')];

describe('a whole chat completion', () => {
  it('has the shape of chat.completion', async () => {
    const { chat } = testApp({ reply: () => oneTwo, cachedTokens: 3 });
    const json: Json = await (await chat({})).json();
    expect(json).toEqual({
      id: expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'fake-model',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'one two', refusal: null },
          logprobs: null,
          finish_reason: 'stop',
          stop_reason: end,
        },
      ],
      usage: {
        prompt_tokens: expect.any(Number),
        completion_tokens: 3,
        total_tokens: expect.any(Number),
        prompt_tokens_details: { cached_tokens: 3 },
      },
    });
  });

  it('may use the rest of the context where nothing is said', async () => {
    const { chat, engine } = testApp({ maxModelLen: 100 });
    await chat({});
    const { prompt, maxTokens } = engine.requests[0]!;
    expect(prompt.length + maxTokens).toBe(100);
  });

  it('prefers max_completion_tokens and clips it to the context (case 14, vllm#54175)', async () => {
    const { chat, engine } = testApp({ maxModelLen: 100 });
    await chat({ max_tokens: 5, max_completion_tokens: 7 });
    await chat({ max_tokens: 5 });
    await chat({ max_tokens: 2 ** 31 - 1 });
    const [both, one, huge] = engine.requests;
    expect([both!.maxTokens, one!.maxTokens]).toEqual([7, 5]);
    expect(huge!.maxTokens).toBe(100 - huge!.prompt.length);
  });

  it('takes content as text, as text parts, or as nothing from an assistant', async () => {
    const { chat, text } = testApp();
    const parts = [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ];
    const response = await chat({
      messages: [
        { role: 'system', content: '' },
        { role: 'user', content: parts, name: 'me' },
        { role: 'assistant', content: null, tool_calls: [{ id: '1', type: 'function', function: { name: 'f' } }] },
        { role: 'tool', content: 'result', tool_call_id: '1' },
      ],
    });
    expect(response.status).toBe(200);
    expect(text.lastChat!.messages).toEqual([
      { role: 'system', content: '' },
      { role: 'user', content: 'a\nb', name: 'me' },
      { role: 'assistant', content: '', tool_calls: [{ id: '1', type: 'function', function: { name: 'f' } }] },
      { role: 'tool', content: 'result', tool_call_id: '1' },
    ]);
  });

  it('hands options and tools to the template', async () => {
    const { chat, text } = testApp();
    await chat({});
    expect(text.lastChat).toMatchObject({ addGenerationPrompt: true, continueFinalMessage: false });
    expect(text.lastChat).not.toHaveProperty('tools');
    const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }];
    await chat({ tools, tool_choice: 'auto', chat_template_kwargs: { enable_thinking: false } });
    expect(text.lastChat).toMatchObject({ tools, variables: { enable_thinking: false } });
    await chat({ tools, tool_choice: 'none' });
    expect(text.lastChat).not.toHaveProperty('tools');
    await chat({ continue_final_message: true });
    expect(text.lastChat).toMatchObject({ addGenerationPrompt: false, continueFinalMessage: true });
    expect(text.lastChat).toMatchObject({ addSpecialTokens: false, parseSpecialTokens: false });
    await chat({ add_special_tokens: true, parse_special_tokens: true });
    expect(text.lastChat).toMatchObject({ addSpecialTokens: true, parseSpecialTokens: true });
  });

  it('answers a template that throws with a 400 (case 17, sglang#892)', async () => {
    const { chat } = testApp();
    for (const stream of [false, true]) {
      const response = await chat({ messages: [{ role: 'user', content: 'raise' }], stream });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        error: { message: 'the template says no', param: 'messages', type: 'invalid_request_error' },
      });
    }
  });

  it('returns token ids and prompt_logprobs on request', async () => {
    const { chat, engine } = testApp({ reply: () => oneTwo });
    const json: Json = await (await chat({ return_token_ids: true, prompt_logprobs: 0 })).json();
    const prompt = [...engine.requests[0]!.prompt];
    expect(json.prompt_token_ids).toEqual(prompt);
    expect(json.choices[0].token_ids).toEqual([...oneTwo, end]);
    expect(json.prompt_logprobs).toHaveLength(prompt.length);
  });
});

describe('a streamed chat completion', () => {
  it('is framed byte for byte as clients expect', async () => {
    const { chat } = testApp({ reply: () => oneTwo });
    const response = await chat({ stream: true });
    const text = await response.text();
    const id = response.headers.get('x-request-id');
    const created = JSON.parse(eventData(text)[0]!).created;
    const head = `data: {"id":"chatcmpl-${id}","object":"chat.completion.chunk","created":${created},"model":"fake-model","choices":[{"index":0,"delta":`;
    expect(text).toBe(
      [
        `${head}{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n`,
        `${head}{"content":"one"},"logprobs":null,"finish_reason":null}]}\n\n`,
        `${head}{"content":" two"},"logprobs":null,"finish_reason":null}]}\n\n`,
        `${head}{},"logprobs":null,"finish_reason":"stop","stop_reason":${end}}]}\n\n`,
        'data: [DONE]\n\n',
      ].join(''),
    );
  });

  it('opens each choice with its role, with its first token (case 31, vllm#15106)', async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { chat } = testApp({
      reply: () => oneTwo,
      beforeStep: () => gate,
      config: { headerDelay: 0.02 },
    });
    const response = await chat({ stream: true, n: 2 });
    const text = response.text();
    const early = await Promise.race([text, new Promise<'nothing'>((resolve) => setTimeout(resolve, 50, 'nothing'))]);
    expect(early).toBe('nothing');
    release();
    const data = eventData(await text);
    const chunks: Json[] = data.slice(0, -1).map((json) => JSON.parse(json));
    for (const index of [0, 1]) {
      const own = chunks.flatMap((chunk) => chunk.choices).filter((choice: Json) => choice.index === index);
      expect(own[0].delta).toEqual({ role: 'assistant', content: '' });
      expect(own.slice(1).every((choice: Json) => choice.delta.role === undefined)).toBe(true);
      expect(own.map((choice: Json) => choice.delta.content ?? '').join('')).toBe('one two');
    }
  });

  it('makes every chunk complete (case 39, vercel/ai#7417)', async () => {
    const { chat } = testApp({ reply: () => oneTwo });
    const chunks = await streamed(await chat({ stream: true, n: 2, stream_options: { include_usage: true } }));
    const ids = new Set(chunks.map(({ id, created, model, object }) => JSON.stringify({ id, created, model, object })));
    expect(ids.size).toBe(1);
    expect(chunks.pop().choices).toEqual([]);
    for (const { choices } of chunks) {
      for (const choice of choices) {
        expect(choice.index).toEqual(expect.any(Number));
        expect(choice.delta).toEqual(expect.any(Object));
        expect([null, 'stop']).toContain(choice.finish_reason);
      }
    }
  });
});
