import { Tokenizer } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { loadTextModel } from '../../src/text/load.js';
import type { TextModel } from '../../src/text/text-model.js';
import { compileTokenizer } from '../../src/text/tokenizer/compile.js';
import { Encoder } from '../../src/text/tokenizer/encoder.js';
import { bundledMetadata, bundledModel, readFixture } from './models.js';

const raw = { addSpecialTokens: false, parseSpecialTokens: false };
const parsed = { addSpecialTokens: true, parseSpecialTokens: true };

let model: TextModel;
let metadata: Record<string, unknown>;
beforeAll(async () => {
  metadata = await bundledMetadata();
  model = await bundledModel();
});

async function ids(text: string, options = raw, of = model): Promise<number[]> {
  return [...(await of.encode(text, options))];
}

describe('special tokens in a text', () => {
  it('are text unless they are asked for', async () => {
    const text = 'a<|im_end|>b';
    const plain = await ids(text);
    expect(plain).not.toContain(2);
    expect(model.decode(plain, { skipSpecialTokens: true })).toBe(text);
    expect(await ids(text, parsed)).toEqual([81, 2, 82]);
  });

  it('are never made by merges', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom('<|im_end|>', '<', '|', 'im_', 'end', '>', ' ')), async (parts) => {
        for (const id of await ids(parts.join(''))) expect(model.isSpecial(id)).toBe(false);
      }),
    );
  });
});

describe('BOS', () => {
  const { tokenizer, config } = readFixture<{ tokenizer: unknown; config: Record<string, unknown> }>(
    'tokenizers/llama2.json',
  );
  const load = (extra: Record<string, unknown>) =>
    loadTextModel({ kind: 'huggingface', tokenizer, config: { ...config, ...extra }, chatTemplate: undefined }, 1024);

  it('is added once, also where the text brings it along (case 16, llama-cpp-python#1501)', async () => {
    const llama = await load({});
    const [bos, ...rest] = await ids('hi', parsed, llama);
    expect(bos).toBe(1);
    expect(rest).not.toContain(1);
    expect(await ids('<s>hi', parsed, llama)).toEqual([1, ...rest]);
    expect(await ids('', parsed, llama)).toEqual([1]);
    expect(await ids('hi', raw, llama)).toEqual(rest);
  });

  it('follows add_bos_token and add_eos_token', async () => {
    const hi = await ids('hi', raw, await load({}));
    expect(await ids('hi', parsed, await load({ add_bos_token: false }))).toEqual(hi);
    expect(await ids('hi', parsed, await load({ add_eos_token: true }))).toEqual([1, ...hi, 2]);
    expect(await ids('hi', parsed)).toEqual(await ids('hi', raw));
    const withBos = await loadTextModel(
      { kind: 'gguf', metadata: { ...metadata, 'tokenizer.ggml.add_bos_token': true } },
      49152,
    );
    expect(await ids('Hello', parsed, withBos)).toEqual([1, 19556]);
  });
});

it('encodes lone surrogates as U+FFFD (case 19)', async () => {
  for (const text of ['\ud83d', 'a\udc00b', '\udc00\ud83d', '🙂\ud83d']) {
    expect(await ids(text)).toEqual(await ids(text.replace(/\p{Surrogate}/gu, '\ufffd')));
  }
});

describe('merging', () => {
  const { tokenizer } = readFixture<{ tokenizer: object }>('tokenizers/llama3.json');
  // The library's own merging, as a second opinion on pieces long and short.
  const json = {
    ...tokenizer,
    pre_tokenizer: { type: 'ByteLevel', use_regex: false },
    added_tokens: [],
    normalizer: null,
  };
  const library = new (
    Tokenizer as unknown as new (
      json: object,
      config: object,
    ) => {
      encode(text: string, options: object): { ids: number[] };
    }
  )({ ...json, post_processor: null }, {});
  const encoder = new Encoder(compileTokenizer({ ...json, post_processor: null }, {}, 1024).encoder);

  it('agrees with the library on any piece', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'e', 't', 'h', ' ', 's', '\n', 'é'), maxLength: 300 });
    fc.assert(
      fc.property(fc.oneof(letters, fc.string({ unit: 'binary' })), (text) => {
        fc.pre(!/\p{Surrogate}/u.test(text));
        expect([...encoder.encode(text, raw)]).toEqual(library.encode(text, { add_special_tokens: false }).ids);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('long texts', () => {
  const gap = 'The quick brown fox, 12345 times; 東京 🙂 naïve\n\n  and  more <|im_end|> ';

  it('give the same ids as on the calling thread', async () => {
    const text = gap.repeat(1000);
    const local = new Encoder((model as unknown as { tokenizer: { encoder: never } }).tokenizer.encoder);
    expect(await model.encode(text, raw)).toEqual(local.encode(text, raw));
    expect(await model.encode(text, parsed)).toEqual(local.encode(text, parsed));
  });

  it('leave the event loop free', async () => {
    const text = gap.repeat(15_000);
    expect(text.length).toBeGreaterThan(1e6);
    await model.encode(text.slice(0, 20_000), raw);
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    const started = performance.now();
    await model.encode(text, raw);
    const elapsed = performance.now() - started;
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(elapsed / 50);
  });

  it('leave it free as well when they are many short ones', async () => {
    const texts = Array.from({ length: 200 }, (_, i) => `${i}${gap.repeat(60)}`);
    const started = performance.now();
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    const encoded = await Promise.all(texts.map((text) => model.encode(text, raw)));
    const elapsed = performance.now() - started;
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(elapsed / 50);
    texts.forEach((text, i) => {
      expect(model.decode(encoded[i]!, { skipSpecialTokens: false })).toBe(text);
    });
  });

  it.each([
    ['a'.repeat(1e6), 250_000],
    [' '.repeat(1e6), 15_625],
    ['1'.repeat(1e6), 1_000_000],
  ])('of one repeated character take no quadratic time', async (text, count) => {
    expect(await model.encode(text, raw)).toHaveLength(count);
  });
});
