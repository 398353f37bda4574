/** The server as it starts without options, with the official client of OpenAI: the bundled model, in its default precision. */
import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { childServer } from '../support/child-server.js';

const model = 'SmolLM2-135M-Instruct';
const server = childServer([]);
let client: OpenAI;
beforeAll(() => {
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
});

const messages = [{ role: 'user' as const, content: 'What is the capital of France?' }];
const greedy = { model, temperature: 0, max_tokens: 24 };

describe('the default server', () => {
  it('finds the model', async () => {
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual([model]);
    expect((await client.models.retrieve(model)).id).toBe(model);
  });

  it('completes a chat and streams the same', async () => {
    const whole = await client.chat.completions.create({ ...greedy, messages });
    const [choice] = whole.choices;
    expect(choice!.message.role).toBe('assistant');
    expect(choice!.message.content).toContain('Paris');
    expect(choice!.finish_reason).toBe('stop');
    const stream = await client.chat.completions.create({
      ...greedy,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    const reasons: (string | null)[] = [];
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      if (chunk.choices[0]) reasons.push(chunk.choices[0].finish_reason);
      usage = chunk.usage;
    }
    expect(text).toBe(choice!.message.content);
    expect(reasons.at(-1)).toBe('stop');
    expect(reasons.slice(0, -1).every((reason) => reason === null)).toBe(true);
    expect(usage).toMatchObject({
      prompt_tokens: whole.usage!.prompt_tokens,
      completion_tokens: whole.usage!.completion_tokens,
    });
  });

  it('completes a text and streams the same', async () => {
    const body = { ...greedy, prompt: ['The capital of France is', 'def fibonacci(n):'] };
    const whole = await client.completions.create(body);
    expect(whole.choices[0]!.text).toContain('Paris');
    const texts = ['', ''];
    for await (const chunk of await client.completions.create({ ...body, stream: true })) {
      for (const { index, text } of chunk.choices) texts[index] += text;
    }
    expect(texts).toEqual(whole.choices.map(({ text }) => text));
  });

  it('leaves a stream, which ends its sequence', async () => {
    const stream = await client.chat.completions.create({ model, messages, stream: true, max_tokens: 2000 });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 4) break;
    expect(await server.idle()).toMatchObject({ running: 0, blocks_used: 0 });
  });
});
