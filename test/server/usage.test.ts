/** Token counts: where they are, where they must not be, and what they count. */
import { describe, expect, it } from 'vitest';
import { word } from '../support/fake-text.js';
import { type Json, streamed, testApp } from '../support/server.js';

const reply = () => [word('one'), word(' two')];

/** Every combination of the two options; undefined leaves it out (case 11, sglang#954, vllm#36379). */
const matrix = [undefined, null, false, true].flatMap((include) =>
  [undefined, false, true].map((continuous) => [include, continuous] as const),
);

describe.each(['completion', 'chat'] as const)('usage of a streamed %s (case 11)', (kind) => {
  it.each(matrix)('with include_usage %s and continuous_usage_stats %s', async (include, continuous) => {
    const app = testApp({ reply, cachedTokens: 1 });
    const chunks = await streamed(
      await app[kind]({
        stream: true,
        n: 2,
        stream_options: { include_usage: include, continuous_usage_stats: continuous },
      }),
    );
    const prompt = app.engine.requests[0]!.prompt.length;
    const total = {
      prompt_tokens: prompt,
      completion_tokens: 6,
      total_tokens: prompt + 6,
      prompt_tokens_details: { cached_tokens: 1 },
    };
    const last = include ? chunks.pop() : undefined;
    if (include) expect(last).toMatchObject({ choices: [], usage: total });
    expect(chunks.every((chunk) => chunk.choices.length === 1)).toBe(true);
    if (continuous) {
      const counts: number[] = chunks.map((chunk) => chunk.usage.completion_tokens);
      expect(counts).toEqual([...counts].sort((a, b) => a - b));
      expect(chunks.at(-1).usage).toEqual(total);
    } else if (include) {
      expect(chunks.every((chunk) => chunk.usage === null)).toBe(true);
    } else {
      expect(chunks.every((chunk) => !('usage' in chunk))).toBe(true);
    }
  });

  it('is absent without stream_options, and as in the whole answer', async () => {
    const app = testApp({ reply });
    const chunks = await streamed(await app[kind]({ stream: true }));
    expect(chunks.every((chunk) => !('usage' in chunk))).toBe(true);
    const whole: Json = await (await app[kind]({})).json();
    const counted = await streamed(await app[kind]({ stream: true, stream_options: { include_usage: true } }));
    expect(counted.at(-1).usage).toEqual(whole.usage);
  });
});

describe('usage', () => {
  it('counts each prompt once and every choice', async () => {
    const { completion } = testApp({ reply, cachedTokens: 1 });
    const json: Json = await (await completion({ prompt: [[1, 2], [3]], n: 3 })).json();
    expect(json.usage).toEqual({
      prompt_tokens: 3,
      completion_tokens: 18,
      total_tokens: 21,
      prompt_tokens_details: { cached_tokens: 2 },
    });
  });
});
