/** Log probabilities in both shapes: aligned with the text, equal streamed and whole, complete at every kind of end. */
import { describe, expect, it } from 'vitest';
import { fakeLogprob } from '../support/fake-engine.js';
import { byteTokens, turn, word } from '../support/fake-text.js';
import { type Json, streamed, testApp } from '../support/server.js';

const counting = [word('one'), word(' two'), word(' three'), word(' four')];

describe('logprobs of completions', () => {
  it('have tokens, offsets and alternatives', async () => {
    const { completion, engine } = testApp({ reply: () => [...byteTokens('é🎉'), word(' two')] });
    const json: Json = await (await completion({ logprobs: 2 })).json();
    expect(engine.requests[0]!.logprobs).toBe(2);
    const { text, logprobs } = json.choices[0];
    expect(text).toBe('é🎉 two');
    expect(logprobs.tokens).toEqual(['', 'é', '', '', '', '🎉', ' two']);
    expect(logprobs.text_offset).toEqual([0, 0, 1, 1, 1, 1, 2]);
    expect(logprobs.token_logprobs[6]).toBeCloseTo(fakeLogprob(word(' two'), 6));
    expect(logprobs.top_logprobs[6]).toEqual({
      ' two': fakeLogprob(word(' two'), 6),
      ' three': fakeLogprob(word(' two'), 6) - 1,
    });
  });

  it('report the token alone with 0', async () => {
    const { completion } = testApp({ reply: () => counting });
    const json: Json = await (await completion({ logprobs: 0 })).json();
    expect(json.choices[0].logprobs.top_logprobs[0]).toEqual({ one: fakeLogprob(word('one'), 0) });
  });

  it('cover an echoed prompt, whose first token has none', async () => {
    const { completion, engine } = testApp({ reply: () => counting });
    const body = { prompt: 'Hello world', echo: true, logprobs: 1, n: 2 };
    const json: Json = await (await completion(body)).json();
    expect(engine.requests[0]!.promptLogprobs).toBe(1);
    for (const { text, logprobs } of json.choices) {
      expect(text).toBe('Hello worldone two three four');
      expect(logprobs.tokens).toEqual(['Hello', ' world', 'one', ' two', ' three', ' four']);
      expect(logprobs.text_offset).toEqual([0, 5, 11, 14, 18, 24]);
      expect(logprobs.token_logprobs[0]).toBeNull();
      expect(logprobs.top_logprobs[0]).toBeNull();
      expect(logprobs.token_logprobs.slice(1)).not.toContain(null);
    }
    const scored: Json = await (await completion({ ...body, n: 1, max_tokens: 0 })).json();
    expect(scored.choices[0].logprobs.tokens).toEqual(['Hello', ' world']);
  });

  it('are lists, if empty ones, where there is no text (case 23, vllm#8988)', async () => {
    const { completion, chat } = testApp({ reply: () => [] });
    const json: Json = await (await completion({ logprobs: 1 })).json();
    expect(json.choices[0].logprobs).toEqual({ text_offset: [], token_logprobs: [], tokens: [], top_logprobs: [] });
    const answer: Json = await (await chat({ logprobs: true })).json();
    expect(answer.choices[0].logprobs).toEqual({ content: [], refusal: null });
  });
});

describe('logprobs of chats', () => {
  it('have bytes that rebuild the text', async () => {
    const { chat } = testApp({ reply: () => [...byteTokens('🎉'), word('Hello')] });
    const json: Json = await (await chat({ logprobs: true, top_logprobs: 1 })).json();
    const { content } = json.choices[0].logprobs;
    expect(new TextDecoder().decode(Uint8Array.from(content.flatMap((entry: Json) => entry.bytes)))).toBe('🎉Hello');
    expect(content.at(-1)).toEqual({
      token: 'Hello',
      logprob: fakeLogprob(word('Hello'), 4),
      bytes: byteTokens('Hello'),
      top_logprobs: [{ token: 'Hello', logprob: fakeLogprob(word('Hello'), 4), bytes: byteTokens('Hello') }],
    });
  });

  it('have no alternatives unless asked', async () => {
    const { chat } = testApp({ reply: () => counting });
    const json: Json = await (await chat({ logprobs: true })).json();
    expect(json.choices[0].logprobs.content.map((entry: Json) => entry.top_logprobs)).toEqual([[], [], [], []]);
  });
});

/** Ends of an answer (case 43): its script and what the request says. */
const endings: Record<string, { reply: number[]; body: object; text: string }> = {
  'an end token': { reply: counting, body: {}, text: 'one two three four' },
  'the token limit': { reply: counting, body: { max_tokens: 2 }, text: 'one two' },
  'the limit inside a character': {
    reply: byteTokens('a🎉'),
    body: { max_tokens: 3 },
    text: 'a�',
  },
  'a stop string': { reply: counting, body: { stop: [' three'] }, text: 'one two' },
  'a stop string inside a token': { reply: counting, body: { stop: ['ree'] }, text: 'one two th' },
  'a stop string over tokens': { reply: byteTokens('éa🎉bc'), body: { stop: ['🎉b'] }, text: 'éa' },
  'a stop string in a token of several characters': {
    reply: [word('xy'), word('halb🎉'), word(' one')],
    body: { stop: ['b🎉'] },
    text: 'xyhal',
  },
  'text held for a stop string that never came': {
    reply: byteTokens('abSTO'),
    body: { stop: ['STOP'] },
    text: 'abSTO',
  },
  'a special token in between': { reply: [word('one'), turn, word(' two')], body: {}, text: 'one two' },
};

describe.each(Object.entries(endings))(
  'logprobs of an answer that ends by %s (case 43)',
  (_, { reply, body, text }) => {
    it('rebuild the text of a completion, and are the same streamed', async () => {
      const { completion } = testApp({ reply: () => reply });
      const json: Json = await (await completion({ ...body, logprobs: 1 })).json();
      const whole = json.choices[0];
      expect(whole.text).toBe(text);
      expect(whole.logprobs.tokens.join('')).toBe(text);
      const chunks = await streamed(await completion({ ...body, logprobs: 1, stream: true }));
      const lists = { text_offset: [], token_logprobs: [], tokens: [], top_logprobs: [] } as Json;
      for (const key of Object.keys(lists)) lists[key] = chunks.flatMap((chunk) => chunk.choices[0].logprobs[key]);
      expect(lists).toEqual(whole.logprobs);
    });

    it('rebuild the bytes of a chat, and are the same streamed', async () => {
      const { chat } = testApp({ reply: () => reply });
      const json: Json = await (await chat({ ...body, logprobs: true, top_logprobs: 2 })).json();
      const { message, logprobs } = json.choices[0];
      expect(message.content).toBe(text);
      const bytes = Uint8Array.from(logprobs.content.flatMap((entry: Json) => entry.bytes));
      expect(new TextDecoder().decode(bytes)).toBe(text);
      const chunks = await streamed(await chat({ ...body, logprobs: true, top_logprobs: 2, stream: true }));
      expect(chunks.flatMap((chunk) => chunk.choices[0].logprobs?.content ?? [])).toEqual(logprobs.content);
    });

    it('never come before their text', async () => {
      const { completion } = testApp({ reply: () => reply });
      let shown = '';
      let tokens = '';
      for (const { choices } of await streamed(await completion({ ...body, logprobs: 0, stream: true }))) {
        shown += choices[0].text;
        tokens += choices[0].logprobs.tokens.join('');
        expect(shown.startsWith(tokens)).toBe(true);
      }
    });
  },
);
