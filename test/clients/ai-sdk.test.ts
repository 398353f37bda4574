/** Vercel's AI SDK with its provider for OpenAI-compatible servers, unmodified. */
import { createOpenAICompatible, type OpenAICompatibleProvider } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, streamText } from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { aborted, clientServer, finished, key, model } from './support/client-server.js';

const server = clientServer();
let provider: OpenAICompatibleProvider;
beforeAll(() => {
  provider = createOpenAICompatible({ name: 'sluice', baseURL: `${server.url}/v1`, apiKey: key, includeUsage: true });
});

const seeded = { prompt: 'Hello there', seed: 1, maxOutputTokens: 24, maxRetries: 0 };

describe('AI SDK, openai-compatible', () => {
  it('generates a text', async () => {
    const { text, usage, finishReason, response } = await generateText({ model: provider(model), ...seeded });
    expect(text.length).toBeGreaterThan(0);
    expect(usage.outputTokens).toBeGreaterThan(0);
    expect(usage.inputTokens).toBeGreaterThan(0);
    expect(['stop', 'length']).toContain(finishReason);
    expect(response.modelId).toBe(model);
  });

  it('streams the same text', async () => {
    const whole = await generateText({ model: provider(model), ...seeded });
    const result = streamText({ model: provider(model), ...seeded });
    let text = '';
    for await (const part of result.textStream) text += part;
    expect(text).toBe(whole.text);
    expect((await result.usage).outputTokens).toBe(whole.usage.outputTokens);
    expect(await result.finishReason).toBe(whole.finishReason);
  });

  it('continues a text by the completions endpoint', async () => {
    const { text } = await generateText({ model: provider.completionModel(model), ...seeded });
    const result = streamText({ model: provider.completionModel(model), ...seeded });
    let streamed = '';
    for await (const part of result.textStream) streamed += part;
    expect(streamed).toBe(text);
  });

  it('aborts a stream, and the server stops working for it', async () => {
    const before = await finished(server, 'abort');
    const controller = new AbortController();
    const result = streamText({
      model: provider(model),
      prompt: 'Hello',
      maxOutputTokens: 900,
      providerOptions: { sluice: { ignore_eos: true, n: 16 } },
      abortSignal: controller.signal,
    });
    let parts = 0;
    for await (const _ of result.textStream) if (++parts === 2) controller.abort();
    await aborted(server, before, 1);
  });

  it('tells a refusal with its status', async () => {
    const refused = generateText({ model: provider('other'), ...seeded });
    await expect(refused).rejects.toThrow(APICallError);
    await expect(refused).rejects.toMatchObject({ statusCode: 404 });
  });
});
