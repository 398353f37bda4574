/** OpenAI's client for JavaScript, unmodified: every endpoint, streams, aborts, timeouts and retries. */
import OpenAI, { APIConnectionTimeoutError, APIUserAbortError, AuthenticationError, BadRequestError } from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { aborted, clientServer, finished, key, model, narrowKey } from './support/client-server.js';

const server = clientServer();
let client: OpenAI;
beforeAll(() => {
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key, maxRetries: 0 });
});

const messages = [{ role: 'user' as const, content: 'Hello there' }];
const seeded = { model, messages, seed: 1, max_tokens: 24 };
/** Seconds of work. */
const long = { model, messages, max_tokens: 900, n: 64, ignore_eos: true };

describe('openai (npm)', () => {
  it('lists models and completes texts', async () => {
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual([model]);
    const completion = await client.completions.create({
      model,
      prompt: 'Hello',
      max_tokens: 8,
      logprobs: 2,
      echo: true,
    });
    const [choice] = completion.choices;
    expect(choice!.logprobs!.tokens!.join('')).toBe(choice!.text);
    expect(choice!.text.startsWith('Hello')).toBe(true);
  });

  it('streams a chat to the text of the whole answer, with usage', async () => {
    const whole = await client.chat.completions.create(seeded);
    const stream = await client.chat.completions.create({
      ...seeded,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      usage = chunk.usage ?? usage;
    }
    expect(text).toBe(whole.choices[0]!.message.content);
    expect(usage?.completion_tokens).toBe(whole.usage!.completion_tokens);
  });

  it('puts several choices with log probabilities together', async () => {
    const runner = client.chat.completions.stream({ ...seeded, n: 3, logprobs: true, top_logprobs: 2 });
    const final = await runner.finalChatCompletion();
    const whole = await client.chat.completions.create({ ...seeded, n: 3, logprobs: true, top_logprobs: 2 });
    expect(final.choices.map(({ message }) => message.content)).toEqual(
      whole.choices.map(({ message }) => message.content),
    );
    for (const [i, { logprobs, message }] of final.choices.entries()) {
      expect(logprobs!.content).toEqual(whole.choices[i]!.logprobs!.content);
      const bytes = logprobs!.content!.flatMap((token) => token.bytes ?? []);
      expect(new TextDecoder().decode(Uint8Array.from(bytes))).toBe(message.content);
    }
  });

  it('answers by the responses endpoint what chats answer (case 82)', async () => {
    const whole = await client.chat.completions.create(seeded);
    const extra = { seed: 1 } as object;
    const stream = client.responses.stream({ model, input: 'Hello there', max_output_tokens: 24, ...extra });
    const kinds: string[] = [];
    for await (const event of stream) kinds.push(event.type);
    const final = await stream.finalResponse();
    expect(final.output_text).toBe(whole.choices[0]!.message.content);
    expect(kinds[0]).toBe('response.created');
    expect(kinds.at(-1)).toMatch(/^response\.(completed|incomplete)$/);
  });

  it('aborts by leaving a stream, by its controller and by a signal', async () => {
    const before = await finished(server, 'abort');
    const left = await client.chat.completions.create({ ...long, stream: true });
    for await (const _ of left) break;
    const controlled = await client.chat.completions.create({ ...long, stream: true });
    controlled.controller.abort();
    const controller = new AbortController();
    const whole = client.chat.completions.create(long, { signal: controller.signal });
    setTimeout(() => controller.abort(), 100);
    await expect(whole).rejects.toThrow(APIUserAbortError);
    await aborted(server, before, 3 * 64);
  });

  it('times out, and the server stops working for it', async () => {
    const before = await finished(server, 'abort');
    await expect(client.chat.completions.create(long, { timeout: 200 })).rejects.toThrow(APIConnectionTimeoutError);
    await aborted(server, before, 64);
  });

  it('retries a 429 after the time it was told', async () => {
    const options = { baseURL: `${server.url}/v1`, apiKey: narrowKey, maxRetries: 2 };
    const occupying = new AbortController();
    const occupant = new OpenAI(options).chat.completions.create(long, { signal: occupying.signal });
    const gone = expect(occupant).rejects.toThrow(APIUserAbortError);
    while ((await server.health()).running === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    const statuses: number[] = [];
    const counting = new OpenAI({
      ...options,
      fetch: async (input, init) => {
        const response = await fetch(input, init);
        statuses.push(response.status);
        occupying.abort();
        return response;
      },
    });
    const answer = await counting.completions.create({ model, prompt: 'Hello', max_tokens: 4 });
    expect(answer.choices).toHaveLength(1);
    expect(statuses).toEqual([429, 200]);
    await gone;
  });

  it('types errors by their status', async () => {
    await expect(client.chat.completions.create({ ...seeded, temperature: 9999 })).rejects.toThrow(BadRequestError);
    const stranger = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'wrong', maxRetries: 0 });
    await expect(stranger.models.list()).rejects.toThrow(AuthenticationError);
  });
});
