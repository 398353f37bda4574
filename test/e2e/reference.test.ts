/** The bundled model through a real socket, against what other programs computed: token ids, chats, greedy answers. */
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { childServer } from '../support/child-server.js';
import type { Json } from '../support/server.js';

const server = childServer(['--precision', 'fp32', '--kv-cache-memory', '256MiB']);

function golden<Content>(name: string): Content {
  return JSON.parse(readFileSync(new URL(`../fixtures/golden/${name}.json`, import.meta.url), 'utf8')) as Content;
}

describe('texts', () => {
  const { cases } = golden<{ cases: { text: string; ids: number[] }[] }>('smollm2-tokenizer');
  const texts = cases.filter(({ ids }) => ids.length > 0);
  /** Generates nothing: the prompts come back as they were understood. */
  const body = { max_tokens: 0, echo: true, return_token_ids: true };
  let answer: Json;
  beforeAll(async () => {
    answer = await server.completion({ ...body, prompt: texts.map(({ text }) => text) });
  });

  it('are all there', () => {
    expect(cases).toHaveLength(64);
    expect(answer.choices).toHaveLength(63);
    expect(answer.usage.prompt_tokens).toBe(texts.reduce((sum, { ids }) => sum + ids.length, 0));
  });

  it.each(texts.map((item, index) => ({ ...item, index })))('$text', ({ text, ids, index }) => {
    expect(answer.choices[index].prompt_token_ids).toEqual(ids);
    expect(answer.choices[index].text).toBe(text);
  });

  it('come back from token ids', async () => {
    const prompt = texts.map(({ ids }) => ids);
    const { choices } = await server.completion({ ...body, prompt, skip_special_tokens: false });
    expect(choices.map(({ text }: Json) => text)).toEqual(texts.map(({ text }) => text));
  });

  it('come back from /tokenize by /detokenize, spaces and all (case 35, turbo-fieldfare#118)', async () => {
    for (const prompt of [...texts.map(({ text }) => text), '    .', ' ,', " n't", '\n\n  -']) {
      const { tokens } = await server.json('/tokenize', { prompt });
      expect(await server.json('/detokenize', { tokens })).toEqual({ prompt });
    }
  });

  it('that are empty have nothing to continue', async () => {
    expect(cases.filter(({ ids }) => ids.length === 0).map(({ text }) => text)).toEqual(['']);
    const response = await server.post('/v1/completions', { ...body, prompt: '' });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param: 'prompt' } });
  });
});

describe('chats', () => {
  interface Message {
    readonly role: string;
    readonly content: string;
  }
  const cases = golden<{ messages: Message[]; text: string; ids: number[] }[]>('smollm2-chat');
  const chat = (messages: object[]) =>
    server.json('/v1/chat/completions', { messages, max_tokens: 1, return_token_ids: true });

  it.each(cases)('$text', async ({ messages, ids }) => {
    const { prompt_token_ids, usage } = await chat(messages);
    expect(prompt_token_ids).toEqual(ids);
    expect(usage.prompt_tokens).toBe(ids.length);
  });

  it('as text parts are the same', async () => {
    const parts = cases.map(({ messages }) =>
      messages.map(({ role, content }) => ({ role, content: [{ type: 'text', text: content }] })),
    );
    const answers = await Promise.all(parts.map(chat));
    expect(answers.map(({ prompt_token_ids }) => prompt_token_ids)).toEqual(cases.map(({ ids }) => ids));
  });
});

describe('greedy answers', () => {
  interface GreedyCase {
    readonly prompt: string;
    readonly ids: number[];
    readonly greedy: number[];
    readonly logprobs: number[];
    readonly gaps: number[];
  }
  const { cases } = golden<{ cases: GreedyCase[] }>('smollm2-greedy');
  const body = {
    temperature: 0,
    max_tokens: 48,
    logprobs: 2,
    ignore_eos: true,
    skip_special_tokens: false,
    return_token_ids: true,
  };

  it('are decided clearly: no token is nearly tied with another', () => {
    expect(Math.min(...cases.flatMap(({ gaps }) => gaps))).toBeGreaterThan(0.001);
  });

  function check(choice: Json, { greedy, logprobs, gaps }: GreedyCase): void {
    expect(choice.token_ids).toEqual(greedy);
    const computed: number[] = choice.logprobs.token_logprobs;
    const tops: Record<string, number>[] = choice.logprobs.top_logprobs;
    expect(computed).toHaveLength(48);
    for (const [i, logprob] of computed.entries()) {
      expect(Math.abs(logprob - logprobs[i]!)).toBeLessThan(0.01);
      // The runner-up, where it is not written like the winner.
      const second = Object.values(tops[i]!).find((other) => other !== logprob);
      if (second !== undefined) expect(Math.abs(logprob - second - gaps[i]!)).toBeLessThan(0.01);
    }
  }

  it('are those of the reference, all asked for at once', async () => {
    const { choices } = await server.completion({ ...body, prompt: cases.map(({ ids }) => ids) });
    expect(choices).toHaveLength(8);
    for (const [i, item] of cases.entries()) check(choices[i], item);
  });

  it('are those of the reference, one by one', async () => {
    for (const item of cases.slice(0, 3))
      check((await server.completion({ ...body, prompt: item.ids })).choices[0], item);
  });
});
