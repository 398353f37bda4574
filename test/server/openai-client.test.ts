/** The official client, unmodified, on a real socket. */
import OpenAI, { APIUserAbortError, BadRequestError, NotFoundError } from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { byteTokens } from '../support/fake-text.js';
import { type TestServer, testServer, until } from '../support/server.js';

const answer = 'Grüße 👩‍👩‍👧 aus 東京, é!';
let server: TestServer;
let client: OpenAI;

beforeAll(async () => {
  server = await testServer({
    reply: (_, choice) => [...byteTokens(answer), ...(choice > 0 ? byteTokens(`#${choice}`) : [])],
    beforeStep: (_, request) =>
      request.user === 'slow' ? new Promise((resolve) => setTimeout(resolve, 5)) : undefined,
  });
  client = new OpenAI({ baseURL: `${server.server.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => server.server.kill());

const messages = [{ role: 'user' as const, content: 'Hello' }];
const model = 'fake-model';

describe('the openai client', () => {
  it('completes a chat', async () => {
    const completion = await client.chat.completions.create({ model, messages });
    expect(completion.choices[0]!.message.content).toBe(answer);
    expect(completion.choices[0]!.finish_reason).toBe('stop');
    expect(completion.usage!.completion_tokens).toBe(byteTokens(answer).length + 1);
  });

  it('streams a chat', async () => {
    const stream = await client.chat.completions.create({
      model,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      usage = chunk.usage;
    }
    expect(text).toBe(answer);
    expect(usage?.completion_tokens).toBe(byteTokens(answer).length + 1);
  });

  it('puts a stream of several choices with log probabilities together by its own helper', async () => {
    const runner = client.chat.completions.stream({ model, messages, n: 2, logprobs: true, top_logprobs: 2 });
    const final = await runner.finalChatCompletion();
    expect(final.choices.map((choice) => choice.message.content)).toEqual([answer, `${answer}#1`]);
    expect(final.choices.map((choice) => choice.message.role)).toEqual(['assistant', 'assistant']);
    const tokens = final.choices[0]!.logprobs!.content!;
    expect(new TextDecoder().decode(Uint8Array.from(tokens.flatMap((token) => token.bytes ?? [])))).toBe(answer);
  });

  it('completes and streams a text', async () => {
    const body = { model, prompt: ['Hello', ' one'], max_tokens: 100 };
    const whole = await client.completions.create(body);
    expect(whole.choices.map((choice) => choice.text)).toEqual([answer, answer]);
    const texts = ['', ''];
    for await (const chunk of await client.completions.create({ ...body, stream: true })) {
      for (const choice of chunk.choices) texts[choice.index] += choice.text;
    }
    expect(texts).toEqual([answer, answer]);
  });

  it('types errors by their status', async () => {
    const bad = client.chat.completions.create({ model, messages, temperature: -1 });
    await expect(bad).rejects.toThrow(BadRequestError);
    await expect(bad).rejects.toMatchObject({ status: 400, param: 'temperature', type: 'invalid_request_error' });
    const missing = client.chat.completions.create({ model: 'other', messages });
    await expect(missing).rejects.toThrow(NotFoundError);
    await expect(missing).rejects.toMatchObject({ code: 'model_not_found' });
  });

  it('aborts a stream, which aborts the generation', async () => {
    const before = server.engine.aborted;
    const stream = await client.chat.completions.create({ model, messages, stream: true, user: 'slow' });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 3) stream.controller.abort();
    await until(() => server.engine.aborted === before + 1, 'the generation is aborted');
    const controller = new AbortController();
    const whole = client.chat.completions.create({ model, messages, user: 'slow' }, { signal: controller.signal });
    setTimeout(() => controller.abort(), 30);
    await expect(whole).rejects.toThrow(APIUserAbortError);
    await until(() => server.engine.aborted === before + 2, 'the generation is aborted');
  });

  it('lists models', async () => {
    const page = await client.models.list();
    expect(page.data.map((item) => item.id)).toEqual([model]);
    expect((await client.models.retrieve(model)).id).toBe(model);
  });
});
