/**
 * Tokenizers of the families in use, small ones, against what huggingface/tokenizers and SentencePiece make of the same
 * texts (test/fixtures/tokenizers).
 */
import { describe, expect, it } from 'vitest';
import { loadTextModel } from '../../src/text/load.js';
import type { TextModel } from '../../src/text/text-model.js';
import { readFixture, tinyModel } from './models.js';

interface ReferenceCase {
  readonly text: string;
  /** Without BOS; special tokens in the text are parsed. */
  readonly ids: number[];
  readonly withSpecials: number[];
  /** Special tokens in the text are not parsed. */
  readonly plain: number[];
  readonly decoded: string;
}

const VOCAB = 1024;

const NAMES = ['llama3', 'qwen2', 'gpt4o', 'tekken', 'gpt2-prefix', 'llama2', 'metaspace', 'gemma'];
describe.each(NAMES)('%s', (name) => {
  const { tokenizer, config, cases } = readFixture<{
    tokenizer: unknown;
    config: Record<string, unknown>;
    cases: ReferenceCase[];
  }>(`tokenizers/${name}.json`);
  const model = loadTextModel({ kind: 'huggingface', tokenizer, config, chatTemplate: undefined }, VOCAB);

  it.each(cases)('agrees on $text', async ({ text, ids, plain, decoded }) => {
    const { encode, decode } = bind(await model);
    expect(await encode(text, { addSpecialTokens: false, parseSpecialTokens: true })).toEqual(ids);
    expect(await encode(text, { addSpecialTokens: false, parseSpecialTokens: false })).toEqual(plain);
    // The reference takes added tokens for byte-level ones (case 36, tokenizers#1392).
    expect(decode(ids)).toBe(text.includes('ilÖveyou') && name === 'qwen2' ? text : decoded);
  });

  it('adds the tokens around a text that the reference adds', async () => {
    const { encode } = bind(await model);
    for (const { text, withSpecials } of cases.filter(({ text }) => !text.startsWith('<s>'))) {
      expect(await encode(text, { addSpecialTokens: true, parseSpecialTokens: true })).toEqual(withSpecials);
    }
  });
});

it('agrees with the tokenizer of the tiny models, whose digits are those of Unicode', async () => {
  const { cases } = readFixture<{ cases: ReferenceCase[] }>('tokenizers/tiny-llama.json');
  const { encode, decode } = bind(await tinyModel('llama'));
  for (const { text, ids, decoded } of cases) {
    expect(await encode(text, { addSpecialTokens: false, parseSpecialTokens: true })).toEqual(ids);
    expect(decode(ids)).toBe(decoded);
  }
});

describe('a GGUF with scores and no merges (case 59, candle#3670)', () => {
  const { metadata, cases } = readFixture<{ metadata: Record<string, unknown>; cases: ReferenceCase[] }>(
    'tokenizers/sentencepiece.json',
  );
  const model = loadTextModel({ kind: 'gguf', metadata }, VOCAB);

  it.each(cases)('agrees on $text', async ({ text, ids, decoded }) => {
    const { encode, decode } = bind(await model);
    expect(await encode(text, { addSpecialTokens: false, parseSpecialTokens: true })).toEqual(ids);
    expect(decode(ids)).toBe(decoded);
  });
});

function bind(model: TextModel) {
  return {
    encode: async (...args: Parameters<TextModel['encode']>): Promise<number[]> => [...(await model.encode(...args))],
    decode: (ids: readonly number[]): string => model.decode(ids, { skipSpecialTokens: false }),
  };
}
