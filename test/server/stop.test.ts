/** Stop strings: what is shown, what is held back and for how long, and what the engine is told. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { byteTokens, end, word } from '../support/fake-text.js';
import { type Json, streamed, testApp } from '../support/server.js';

const counting = [word('one'), word(' two'), word(' three'), word(' four')];

/** The answer's only choice, whole and streamed. */
async function both(setup: Parameters<typeof testApp>[0], body: object): Promise<{ whole: Json; chunks: Json[] }> {
  const { completion } = testApp(setup);
  const whole: Json = await (await completion(body)).json();
  const chunks = await streamed(await completion({ ...body, stream: true }));
  return { whole: whole.choices[0], chunks: chunks.map((chunk) => chunk.choices[0]) };
}

const joined = (chunks: Json[]) => chunks.map((choice) => choice.text).join('');

describe('a stop string', () => {
  it('ends the answer before it, in one final chunk (case 38, vmlx-swift#109)', async () => {
    const { whole, chunks } = await both({ reply: () => counting }, { stop: ['three'] });
    expect(whole).toMatchObject({ text: 'one two ', finish_reason: 'stop', stop_reason: 'three' });
    expect(joined(chunks)).toBe('one two ');
    expect(chunks.filter((choice) => choice.finish_reason !== null)).toHaveLength(1);
    expect(chunks.at(-1)).toMatchObject({ finish_reason: 'stop', stop_reason: 'three' });
  });

  it('is found across tokens (case 3, mlx-knife#68)', async () => {
    const { whole, chunks } = await both({ reply: () => byteTokens('so it ends') }, { stop: 't e' });
    expect(whole.text).toBe('so i');
    expect(joined(chunks)).toBe('so i');
  });

  it('aborts the request on the engine and counts the tokens it took', async () => {
    const { completion, engine } = testApp({ reply: () => [...counting, ...counting] });
    const json: Json = await (await completion({ stop: ['three'] })).json();
    expect(json.usage.completion_tokens).toBe(3);
    expect(engine.aborted).toBe(1);
    expect(engine.running).toBe(0);
  });

  it('ends its own choice only', async () => {
    const { completion, engine } = testApp({
      reply: (_, choice) => (choice === 0 ? counting : byteTokens('a longer answer')),
    });
    const json: Json = await (await completion({ stop: ['two'], n: 2 })).json();
    expect(json.choices.map((choice: Json) => choice.text)).toEqual(['one ', 'a longer answer']);
    expect(json.choices.map((choice: Json) => choice.stop_reason)).toEqual(['two', end]);
    expect(json.usage.completion_tokens).toBe(2 + 16);
    expect(engine.aborted).toBe(0);
  });

  it('is ignored when empty (case 6, mlc-llm#2070)', async () => {
    for (const stop of ['', [''], [], null]) {
      const { whole, chunks } = await both({ reply: () => counting }, { stop });
      expect(whole).toMatchObject({ text: 'one two three four', stop_reason: end });
      expect(joined(chunks)).toBe('one two three four');
    }
    const { whole } = await both({ reply: () => counting }, { stop: ['', 'four'] });
    expect(whole.text).toBe('one two three ');
  });

  it('holds back no more than may belong to it (case 5, smg#2203, vllm#11089)', async () => {
    const stop = `${'z'.repeat(50)}!`;
    const { chunks } = await both({ reply: () => byteTokens('abzcd') }, { stop });
    expect(chunks.map((choice) => choice.text)).toEqual(['a', 'b', 'zc', 'd', '']);
  });

  it('gives back what was held when the answer ends (case 4, llama.cpp#9867)', async () => {
    const { whole, chunks } = await both({ reply: () => byteTokens('abSTO') }, { stop: 'STOP' });
    expect(whole).toMatchObject({ text: 'abSTO', finish_reason: 'stop', stop_reason: end });
    expect(joined(chunks)).toBe('abSTO');
    expect(chunks.at(-1)).toMatchObject({ text: 'STO', finish_reason: 'stop' });
  });

  it('is part of the answer with include_stop_str_in_output', async () => {
    const { whole, chunks } = await both(
      { reply: () => counting },
      { stop: [' t', 'three'], include_stop_str_in_output: true },
    );
    expect(whole.text).toBe('one t');
    expect(joined(chunks)).toBe('one t');
  });

  it('does not count within min_tokens', async () => {
    const { whole, chunks } = await both({ reply: () => [...counting, ...counting] }, { stop: ['two'], min_tokens: 3 });
    expect(whole.text).toBe('one two three fourone ');
    expect(joined(chunks)).toBe('one two three fourone ');
  });
});

describe('streamed and whole text', () => {
  it('are equal for any text, any stop strings and any number of tokens a step', async () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '🎉', '東', ' one') });
    await fc.assert(
      fc.asyncProperty(
        text,
        fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'é', '🎉'), maxLength: 3 }), { maxLength: 4 }),
        fc.integer({ min: 1, max: 5 }),
        fc.boolean(),
        async (answer, stop, tokensPerStep, includeStop) => {
          const body = { stop, include_stop_str_in_output: includeStop, max_tokens: 200 };
          const { whole, chunks } = await both({ reply: () => byteTokens(answer), tokensPerStep }, body);
          const found = stop.filter((item) => item !== '' && answer.includes(item));
          const at = Math.min(answer.length, ...found.map((item) => answer.indexOf(item)));
          expect(answer.slice(0, at)).toBe(whole.text.slice(0, at));
          if (!includeStop || found.length === 0) expect(whole.text).toBe(answer.slice(0, at));
          else expect(stop).toContain(whole.text.slice(at));
          expect(joined(chunks)).toBe(whole.text);
          expect(chunks.at(-1)).toMatchObject({ finish_reason: whole.finish_reason, stop_reason: whole.stop_reason });
        },
      ),
      { numRuns: 200 },
    );
  });
});
