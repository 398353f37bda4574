/** Streamed and whole answers are the same for every combination of what a request may ask for. */
import { describe, expect, it } from 'vitest';
import { byteTokens, end, turn, word } from '../support/fake-text.js';
import { type Json, streamed, testApp } from '../support/server.js';

function reply(_: unknown, choice: number): number[] {
  return [word('one'), ...byteTokens('é🎉'), turn, word(' two'), ...byteTokens(`東${choice}`), word(' three'), end];
}

interface Combination {
  readonly n: number;
  readonly prompts: number;
  readonly echo: boolean;
  readonly logprobs: number | null;
  readonly stop: readonly string[];
  readonly ids: boolean;
  readonly tokensPerStep: number;
}

function* combinations(): Generator<Combination> {
  for (const n of [1, 3])
    for (const prompts of [1, 2])
      for (const echo of [false, true])
        for (const logprobs of [null, 0, 3])
          for (const stop of [[], ['東1'], ['two', 'th']])
            for (const ids of [false, true])
              for (const tokensPerStep of [1, 3]) yield { n, prompts, echo, logprobs, stop, ids, tokensPerStep };
}

/** Every way to ask for usage in a stream; undefined asks for nothing. */
const usages = [
  undefined,
  { include_usage: true },
  { continuous_usage_stats: true },
  { include_usage: true, continuous_usage_stats: true },
];

/** Usage is where it was asked for, and in the end that of the whole answer. Takes a last chunk of its own away. */
function checkUsage(chunks: Json[], options: (typeof usages)[number], whole: Json): void {
  if (options?.include_usage) {
    const last = chunks.pop();
    expect(last.choices).toEqual([]);
    expect(last.usage).toEqual(whole);
  }
  if (options?.continuous_usage_stats) expect(chunks.at(-1).usage).toEqual(whole);
  const between = options?.continuous_usage_stats ? 'object' : options?.include_usage ? 'null' : 'undefined';
  for (const { usage } of chunks) expect(usage === null ? 'null' : typeof usage).toBe(between);
}

/** A stream's chunks put together to what the whole answer must be. */
function assemble(chunks: Json[], key: 'text' | 'delta'): Json[] {
  const choices: Json[] = [];
  for (const chunk of chunks) {
    for (const choice of chunk.choices) {
      choices[choice.index] ??= { index: choice.index, text: '', logprobs: null, finish_reason: null };
      const whole = choices[choice.index];
      whole.text += key === 'text' ? choice.text : (choice.delta.content ?? '');
      for (const [name, list] of Object.entries(choice.logprobs ?? {})) {
        if (!Array.isArray(list)) continue;
        whole.logprobs ??= {};
        whole.logprobs[name] = [...(whole.logprobs[name] ?? []), ...list];
      }
      whole.token_ids = [...(whole.token_ids ?? []), ...(choice.token_ids ?? [])];
      expect(whole.finish_reason).toBeNull();
      whole.finish_reason = choice.finish_reason;
      whole.stop_reason = choice.stop_reason;
    }
  }
  return choices;
}

function comparable(choices: Json[]): Json[] {
  return choices.map((choice) => ({
    index: choice.index,
    text: choice.text ?? choice.message.content,
    logprobs: choice.logprobs && { ...choice.logprobs, refusal: undefined },
    token_ids: choice.token_ids ?? [],
    finish_reason: choice.finish_reason,
    stop_reason: choice.stop_reason,
  }));
}

describe('a streamed answer equals the whole one', () => {
  it('of completions', async () => {
    let count = 0;
    for (const { n, prompts, echo, logprobs, stop, ids, tokensPerStep } of combinations()) {
      const { completion } = testApp({ reply, tokensPerStep });
      const prompt = ['Hello é', [word('Hello'), 65]].slice(0, prompts);
      const body = {
        prompt: prompts === 1 ? prompt[0] : prompt.map((item) => (typeof item === 'string' ? byteTokens(item) : item)),
        n,
        echo,
        logprobs,
        stop,
        return_token_ids: ids,
      };
      const whole: Json = await (await completion(body)).json();
      for (const stream_options of usages) {
        const chunks = await streamed(await completion({ ...body, stream: true, stream_options }));
        checkUsage(chunks, stream_options, whole.usage);
        expect(comparable(assemble(chunks, 'text'))).toEqual(comparable(whole.choices));
      }
      for (const { text, logprobs: lists } of whole.choices) if (lists) expect(lists.tokens.join('')).toBe(text);
      count++;
    }
    expect(count).toBe(2 * 2 * 2 * 3 * 3 * 2 * 2);
  });

  it('of chats', async () => {
    for (const { n, prompts, echo, logprobs, stop, ids, tokensPerStep } of combinations()) {
      if (prompts > 1 || echo) continue;
      const { chat } = testApp({ reply, tokensPerStep });
      const body = {
        n,
        logprobs: logprobs !== null,
        ...(logprobs !== null && { top_logprobs: logprobs }),
        stop,
        return_token_ids: ids,
      };
      const whole: Json = await (await chat(body)).json();
      for (const stream_options of usages) {
        const chunks = await streamed(await chat({ ...body, stream: true, stream_options }));
        checkUsage(chunks, stream_options, whole.usage);
        expect(comparable(assemble(chunks, 'delta'))).toEqual(comparable(whole.choices));
      }
    }
  });
});
