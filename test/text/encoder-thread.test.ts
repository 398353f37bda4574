import { describe, expect, it } from 'vitest';
import { EncoderThread } from '../../src/text/encoder-thread.js';
import { compileTokenizer } from '../../src/text/tokenizer/compile.js';
import { Encoder } from '../../src/text/tokenizer/encoder.js';
import { readFixture } from './models.js';

const { tokenizer } = readFixture<{ tokenizer: unknown }>('tokenizers/llama3.json');
const { encoder: tables } = compileTokenizer(tokenizer, {}, 1024);
const raw = { addSpecialTokens: false, parseSpecialTokens: true };

describe('the encoder thread', () => {
  it('encodes as the calling thread does, each text its own', async () => {
    const thread = new EncoderThread(tables);
    const local = new Encoder(tables);
    const texts = Array.from({ length: 20 }, (_, i) => `text ${i} <think>東京🙂</think><|end|>`.repeat(i));
    const requests = texts.map((_, i) => ({ ...raw, addSpecialTokens: i % 2 === 0, guarded: i % 3 === 0 ? [30] : [] }));
    const encoded = await Promise.all(texts.map((text, i) => thread.encode(text, requests[i]!)));
    expect(encoded).toEqual(texts.map((text, i) => local.encode(text, requests[i]!)));
  });

  it('rejects every waiting text when the thread dies, and starts another', async () => {
    const thread = new EncoderThread({ ...tables, preTokenizer: { type: 'Nowhere' } });
    for (let attempt = 0; attempt < 2; attempt++) {
      const waiting = [thread.encode('a', raw), thread.encode('b', raw)];
      for (const result of await Promise.allSettled(waiting)) {
        expect(result).toMatchObject({ status: 'rejected', reason: { message: expect.stringContaining('Nowhere') } });
      }
    }
  });
});
