import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { loadTextModel } from '../../src/text/load.js';
import type { DecodeOptions, TextModel } from '../../src/text/text-model.js';
import { bundledModel, readFixture, tinyModel } from './models.js';

const raw = { addSpecialTokens: false, parseSpecialTokens: false };
const all = { skipSpecialTokens: false };

let model: TextModel;
beforeAll(async () => {
  model = await bundledModel();
});

function pieces(tokens: Iterable<number>, options: DecodeOptions = all, of = model): string[] {
  const detokenizer = of.detokenizer(options);
  const texts = Array.from(tokens, (token) => detokenizer.push(token));
  return [...texts, detokenizer.flush()];
}

const unicode = fc.string({ unit: 'binary', maxLength: 60 });

describe('the detokenizer', () => {
  it('gives back every text that was encoded', async () => {
    const tiny = await tinyModel('llama');
    await fc.assert(
      fc.asyncProperty(unicode, async (text) => {
        expect(tiny.decode(await tiny.encode(text, raw), all)).toBe(text.replace(/\p{Surrogate}/gu, '\ufffd'));
      }),
      { numRuns: 500 },
    );
  });

  it('gives back all of a text but bytes for which the vocabulary has no token', async () => {
    const single = Array.from({ length: 49152 }, (_, token) => model.tokenBytes(token)).filter((b) => b.length === 1);
    const known = new Set(single.map((bytes) => bytes[0]!));
    expect(known.size).toBe(235);
    await fc.assert(
      fc.asyncProperty(unicode, async (text) => {
        const bytes = Buffer.from(text).filter((byte) => known.has(byte));
        expect(model.decode(await model.encode(text, raw), all)).toBe(new TextDecoder().decode(bytes));
      }),
      { numRuns: 500 },
    );
  });

  it('streams, for any tokens, pieces that join to the UTF-8 of their bytes and end on whole characters', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(49151), { maxLength: 30 }), (tokens) => {
        const bytes = Buffer.concat(tokens.map((token) => model.tokenBytes(token)));
        const whole = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
        const streamed = pieces(tokens);
        expect(streamed.join('')).toBe(whole);
        expect(model.decode(tokens, all)).toBe(whole);
        for (const piece of streamed) expect(piece).not.toMatch(/\p{Surrogate}/u);
      }),
      { numRuns: 1000 },
    );
  });

  it('holds an emoji of several tokens until it is whole (case 1, llama.cpp#4446)', async () => {
    const ids = await model.encode('a🦦b', raw);
    expect(ids.length).toBeGreaterThan(4);
    const streamed = pieces(ids).filter((piece) => piece !== '');
    expect(streamed).toEqual(['a', '🦦', 'b']);
  });

  it('replaces bytes that stay incomplete before another token (case 2, mlx-vlm#1778)', async () => {
    const [first] = await model.encode('🦦', raw);
    const [space] = await model.encode(' ', raw);
    expect(pieces([first!, space!])).toEqual(['', '\ufffd ', '']);
    expect(pieces([first!])).toEqual(['', '\ufffd']);
  });

  it('keeps leading spaces of an answer (case 26, tokenizers#1141)', async () => {
    const { tokenizer, config } = readFixture<{ tokenizer: unknown; config: Record<string, unknown> }>(
      'tokenizers/llama2.json',
    );
    const llama = await loadTextModel({ kind: 'huggingface', tokenizer, config, chatTemplate: undefined }, 1024);
    const ids = await llama.encode('the dog', raw);
    expect(llama.decode(ids, all)).toBe('the dog');
    expect(llama.decode(ids, { ...all, continuation: true })).toBe(' the dog');
    expect(pieces(ids, { ...all, continuation: true }, llama).join('')).toBe(' the dog');
    expect(llama.decode(await llama.encode('  the', raw), all)).toBe('  the');
    expect(llama.decode([1, ...ids], { skipSpecialTokens: true })).toBe('the dog');
  });

  it('leaves special tokens out unless they are asked for (case 27, dynamo#8780)', async () => {
    const ids = await model.encode('<|im_start|>hi<|im_end|>', { ...raw, parseSpecialTokens: true });
    expect(model.decode(ids, { skipSpecialTokens: true })).toBe('hi');
    expect(pieces(ids)).toEqual(['<|im_start|>', 'hi', '<|im_end|>', '']);
    expect([...ids].map((id) => model.isSpecial(id))).toEqual([true, false, true]);
    expect(model.tokenText(ids[0]!)).toBe('<|im_start|>');
  });

  it('changes no spaces (case 35, turbo-fieldfare#118)', async () => {
    for (const text of ['    .', ' ,', " n't", '\n\n  -', "I 'm here . ", 'a ?b !']) {
      const ids = await model.encode(text, raw);
      expect(model.decode(ids, all)).toBe(text);
      expect(pieces(ids).join('')).toBe(text);
    }
  });

  it('reads an added token with a letter of the byte alphabet as text (case 36, tokenizers#1392)', async () => {
    const { tokenizer, config } = readFixture<{ tokenizer: unknown; config: Record<string, unknown> }>(
      'tokenizers/qwen2.json',
    );
    const qwen = await loadTextModel({ kind: 'huggingface', tokenizer, config, chatTemplate: undefined }, 1024);
    const ids = await qwen.encode('so ilÖveyou ü', raw);
    expect([...ids].map((id) => qwen.tokenText(id))).toContain('ilÖveyou');
    expect(qwen.decode(ids, all)).toBe('so ilÖveyou ü');
    expect(pieces(ids, all, qwen).join('')).toBe('so ilÖveyou ü');
  });

  it.each(['größte', '東京', '👩‍👩‍👧', '\ufeffbom', '\u0000'])('round-trips %j (case 56, imp#1197)', async (text) => {
    const ids = await model.encode(text, raw);
    expect(pieces(ids).join('')).toBe(text);
    expect(Buffer.concat([...ids].map((id) => model.tokenBytes(id))).toString()).toBe(text);
  });

  it('has no text for ids outside the vocabulary', () => {
    for (const token of [49152, 1e9, -1, Number.NaN]) {
      expect(model.tokenBytes(token)).toHaveLength(0);
      expect(model.tokenText(token)).toBe('');
      expect(model.isSpecial(token)).toBe(false);
      expect(model.detokenizer(all).push(token)).toBe('');
    }
    expect(model.decode([], all)).toBe('');
  });
});
