/**
 * Every byte of an answer arrives, once, in order and never as half a character: a stream, read by a parser of event
 * streams that others maintain, says what the whole answer says. The model's tokens end anywhere within characters.
 */
import { readFileSync } from 'node:fs';
import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { type ChainedText, writeChainModel } from '../support/chain-model.js';
import { childServer } from '../support/child-server.js';
import type { Json } from '../support/server.js';
import { temporaryDirectory } from '../support/temporary.js';

const { cases: golden } = JSON.parse(
  readFileSync(new URL('../fixtures/golden/smollm2-tokenizer.json', import.meta.url), 'utf8'),
) as { cases: { text: string }[] };

const texts = [
  'Grüße aus 東京 und 서울 👩‍👩‍👧‍👦, 🏴󠁧󠁢󠁥󠁮󠁧󠁿 and 🇩🇪🇫🇷🇯🇵; 👍🏽 done.',
  '吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。',
  'e\u0301 a\u0308\u0304 क्षि दे\u0300 Z\u0351\u036b\u0343\u032aa\u0360l\u031bg\u0321o\u0322 ท\u0e49ำ 각 ﷺ',
  'data: {"error":1}\n\ndata: [DONE]\n\nevent: x\r\nid: 1\r\rretry: 5\n: comment\n\n',
  '"quotes" \\backslash\\ \u2028 and \u2029, \u0000\u0007\u001b[31m, \ufeff in the middle, \u200d\u200e\u202e',
  '🙂🙃😀😁😂🤣😃😄😅😆😉😊😋😎😍😘🥰😗😙😚',
  '\ufeffat the start',
  '𝒜𝓁𝓅𝒽𝒶 𐍈 𒀀 🜁 \u{10ffff} \uffff \ufffd',
  ...golden.map(({ text }) => text).filter((text) => text.length > 2),
];

/** Numbers from 0 to 1 that repeat from run to run: a linear congruential generator. */
let state = 7;
function random(): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
}

const directory = temporaryDirectory();
const chains = writeChainModel(directory, texts, random);
const server = childServer(['--model', directory, '--precision', 'fp32', '--kv-cache-memory', '16MiB']);

/** The events' data, parsed from the body's bytes as they come. */
async function events(path: string, body: object): Promise<string[]> {
  const response = await server.post(path, { ...body, stream: true });
  expect(response.status).toBe(200);
  const data: string[] = [];
  const parser = createParser({
    onEvent: (event) => data.push(event.data),
    onError: (error) => {
      throw error;
    },
  });
  const decoder = new TextDecoder('utf-8', { fatal: true });
  for await (const bytes of response.body!) parser.feed(decoder.decode(bytes, { stream: true }));
  return data;
}

/** The text of a stream, whose every part must be whole characters. */
async function streamedText(path: string, body: object, part: (choice: Json) => string | undefined): Promise<string> {
  const data = await events(path, body);
  expect(data.pop()).toBe('[DONE]');
  const parts = data.map((json) => part(JSON.parse(json).choices[0]) ?? '');
  for (const text of parts) expect(text).not.toMatch(/\p{Surrogate}/u);
  return parts.join('');
}

function completion({ start, tokens }: ChainedText): object {
  return { prompt: [start], max_tokens: tokens.length, ignore_eos: true, temperature: 0 };
}

const textOf = (choice: Json) => choice.text as string;

/** Texts that are equal are equal in bytes; the message tells where they part. */
function expectBytes(text: string, expected: string): void {
  expect(text).toBe(expected);
  expect(Buffer.from(text).equals(Buffer.from(expected))).toBe(true);
}

it('tokens end within characters', () => {
  const splits = chains.reduce((sum, chain) => sum + chain.splits, 0);
  expect(splits).toBeGreaterThan(100);
});

describe.each(chains)('$text', (chain) => {
  it('is the same streamed and whole', async () => {
    const body = completion(chain);
    const whole = await server.completion({ ...body, return_token_ids: true });
    expect(whole.choices[0].token_ids).toEqual(chain.tokens);
    expectBytes(whole.choices[0].text, chain.text);
    expectBytes(await streamedText('/v1/completions', body, textOf), chain.text);
  });

  it('is the same as a chat', async () => {
    const body = {
      messages: [{ role: 'user', content: chain.chat }],
      max_tokens: chain.tokens.length,
      ignore_eos: true,
    };
    const whole = await server.json('/v1/chat/completions', body);
    expect(whole.usage.prompt_tokens).toBe(1);
    expectBytes(whole.choices[0].message.content, chain.text);
    const delta = (choice: Json) => choice.delta.content as string | undefined;
    expectBytes(await streamedText('/v1/chat/completions', body, delta), chain.text);
  });
});

describe('parts of texts', () => {
  const chain = fc.constantFrom(...chains);

  it('end before a stop string wherever it stands', async () => {
    const stop = chain.chain((item) => {
      const characters = [...item.text];
      return fc
        .tuple(fc.nat(characters.length - 1), fc.integer({ min: 1, max: 6 }))
        .map(([from, length]) => ({ item, stop: characters.slice(from, from + length).join('') }));
    });
    await fc.assert(
      fc.asyncProperty(stop, async ({ item, stop }) => {
        const body = { ...completion(item), stop: [stop, 'never said by anyone'] };
        const expected = item.text.slice(0, item.text.indexOf(stop));
        const [choice] = (await server.completion(body)).choices;
        expectBytes(choice.text, expected);
        expect(choice).toMatchObject({ finish_reason: 'stop', stop_reason: stop });
        expectBytes(await streamedText('/v1/completions', body, textOf), expected);
      }),
      { numRuns: 60 },
    );
  });

  it('that end within a character say so once, streamed and whole', async () => {
    const cut = chain.chain((item) =>
      fc.integer({ min: 1, max: item.tokens.length }).map((count) => ({ item, count })),
    );
    await fc.assert(
      fc.asyncProperty(cut, async ({ item, count }) => {
        const body = { ...completion(item), max_tokens: count };
        const text: string = (await server.completion(body)).choices[0].text;
        const rest = text.endsWith('\ufffd') && !item.text.startsWith(text) ? text.replace(/\ufffd+$/, '') : text;
        expect(item.text.startsWith(rest)).toBe(true);
        expectBytes(await streamedText('/v1/completions', body, textOf), text);
      }),
      { numRuns: 60 },
    );
  });
});

describe('log probabilities', () => {
  let streamed: Json[];
  const chain = chains[0]!;
  const messages = [{ role: 'user', content: chain.chat }];
  const body = { messages, max_tokens: chain.tokens.length, ignore_eos: true, logprobs: true };
  beforeAll(async () => {
    const data = await events('/v1/chat/completions', body);
    streamed = data.slice(0, -1).flatMap((json) => JSON.parse(json).choices[0].logprobs?.content ?? []);
  });

  it('carry the bytes of the text, streamed and whole', async () => {
    const whole: Json[] = (await server.json('/v1/chat/completions', body)).choices[0].logprobs.content;
    expect(streamed).toEqual(whole);
    expect(Buffer.from(whole.flatMap(({ bytes }) => bytes)).toString()).toBe(chain.text);
  });
});
