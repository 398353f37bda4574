import { beforeAll, describe, expect, it } from 'vitest';
import { UserError } from '../../src/errors.js';
import { loadTextModel } from '../../src/text/load.js';
import { compileTokenizer } from '../../src/text/tokenizer/compile.js';
import { GGUF_PRE_TOKENIZERS } from '../../src/text/tokenizer/gguf-pre-tokenizers.js';
import { bundledMetadata, readFixture } from './models.js';

const raw = { addSpecialTokens: false, parseSpecialTokens: true };
const chat = { addGenerationPrompt: true, continueFinalMessage: false };

interface Reference {
  readonly tokenizer: {
    readonly added_tokens: { readonly id: number; readonly content: string; readonly special: boolean }[];
    readonly model: { readonly vocab: Record<string, number>; readonly merges: readonly [string, string][] };
  };
  readonly cases: readonly { readonly text: string; readonly ids: number[] }[];
}

/** The metadata that llama.cpp's converter writes for a byte-level tokenizer.json. */
function convert({ tokenizer }: Reference, pre: string): Record<string, unknown> {
  const tokens: string[] = [];
  for (const [text, id] of Object.entries(tokenizer.model.vocab)) tokens[id] = text;
  const types = tokens.map(() => 1);
  for (const { id, content, special } of tokenizer.added_tokens) {
    tokens[id] = content;
    types[id] = special ? 3 : 4;
  }
  return {
    'tokenizer.ggml.model': 'gpt2',
    'tokenizer.ggml.pre': pre,
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.token_type': types,
    'tokenizer.ggml.merges': tokenizer.model.merges.map((merge) => merge.join(' ')),
    'tokenizer.ggml.bos_token_id': tokens.indexOf('<s>'),
  };
}

describe('a tokenizer from GGUF metadata', () => {
  let metadata: Record<string, unknown>;
  beforeAll(async () => {
    metadata = await bundledMetadata();
  });

  it.each([
    ['llama3', 'llama-bpe'],
    ['qwen2', 'qwen2'],
    ['gpt4o', 'gpt-4o'],
    ['tekken', 'tekken'],
  ])('has the pattern that %s has as tokenizer.json', async (name, pre) => {
    const reference = readFixture<Reference>(`tokenizers/${name}.json`);
    const model = await loadTextModel({ kind: 'gguf', metadata: convert(reference, pre) }, 1024);
    // Flags of single added tokens do not survive the conversion.
    for (const { text, ids } of reference.cases.filter(({ text }) => !text.includes('about'))) {
      expect([...(await model.encode(text, raw))]).toEqual(ids);
    }
  });

  it('encodes user-defined tokens whole, in text and in chats, as from tokenizer.json (case 59, transformers#49008)', async () => {
    const reference = readFixture<Reference>('tokenizers/llama3.json');
    const template = '{% for m in messages %}<s>{{ m.role }}: {{ m.content }}<|end|>{% endfor %}';
    const gguf = { ...convert(reference, 'llama-bpe'), 'tokenizer.chat_template': template };
    const models = [
      await loadTextModel({ kind: 'gguf', metadata: gguf }, 1024),
      await loadTextModel(
        {
          kind: 'huggingface',
          tokenizer: reference.tokenizer,
          config: { chat_template: template },
          chatTemplate: undefined,
        },
        1024,
      ),
    ];
    const think = reference.tokenizer.added_tokens.find((token) => token.content === '<think>')!.id;
    const texts = await Promise.all(
      models.map((model) => model.encode('<think>x', { ...raw, parseSpecialTokens: false })),
    );
    expect(texts[0]![0]).toBe(think);
    expect(texts[0]).toEqual(texts[1]);
    const messages = [{ role: 'user', content: '<think>x</think> <|end|>' }];
    const chats = await Promise.all(models.map((model) => model.encodeChat(messages, chat)));
    expect(chats[0]).toEqual(chats[1]);
    expect([...chats[0]!]).toContain(think);
  });

  it('refuses a chat without a template and still encodes text (case 59)', async () => {
    const { 'tokenizer.chat_template': _, ...rest } = metadata;
    const model = await loadTextModel({ kind: 'gguf', metadata: rest }, 49152);
    expect(model.hasChatTemplate).toBe(false);
    expect(() => model.renderChat([{ role: 'user', content: 'a' }], chat)).toThrow('no chat template');
    await expect(model.encodeChat([{ role: 'user', content: 'a' }], chat)).rejects.toThrow('no chat template');
    expect([...(await model.encode('Hello', raw))]).toEqual([19556]);
  });

  it.each([
    ['pre', 'quux', 'tokenizer.ggml.pre "quux" is not known'],
    ['pre', undefined, 'tokenizer.ggml.pre is missing'],
    ['model', 'bert', 'tokenizer.ggml.model "bert" is not supported'],
    ['model', undefined, 'tokenizer.ggml.model'],
    ['merges', undefined, 'tokenizer.ggml.merges is missing'],
    ['tokens', 7, 'tokenizer.ggml.tokens'],
  ])('is refused by name when %s is %j', async (key, value, message) => {
    const changed = { ...metadata, [`tokenizer.ggml.${key}`]: value };
    const loading = loadTextModel({ kind: 'gguf', metadata: changed }, 49152);
    await expect(loading).rejects.toThrow(message);
    await expect(loading).rejects.toBeInstanceOf(UserError);
  });

  it('marks its end tokens as special even where the file does not', async () => {
    const types = (metadata['tokenizer.ggml.token_type'] as number[]).with(2, 1);
    const model = await loadTextModel(
      { kind: 'gguf', metadata: { ...metadata, 'tokenizer.ggml.token_type': types } },
      49152,
    );
    expect(model.isSpecial(2)).toBe(true);
    expect([...(await model.encode('<|im_end|>', raw))]).toEqual([2]);
  });

  it('knows only patterns that compile', async () => {
    for (const pre of GGUF_PRE_TOKENIZERS.keys()) {
      const converted = convert(readFixture<Reference>('tokenizers/gpt4o.json'), pre);
      await expect(loadTextModel({ kind: 'gguf', metadata: converted }, 1024)).resolves.toBeDefined();
    }
  });
});

describe('a tokenizer.json', () => {
  const { tokenizer } = readFixture<{ tokenizer: Record<string, unknown> & { model: object } }>(
    'tokenizers/llama3.json',
  );

  it.each([
    [{ model: { type: 'Unigram', vocab: [] } }, 'the model "Unigram" is not supported'],
    [{ model: { ...tokenizer.model, end_of_word_suffix: '</w>' } }, 'end_of_word_suffix'],
    [{ model: undefined }, 'tokenizer.json.model: '],
    [{ pre_tokenizer: { type: 'Bert' } }, 'the pre-tokenizer "Bert" is not known'],
    [{ pre_tokenizer: { type: 'Split', pattern: { Regex: '(' }, behavior: 'Isolated' } }, 'is not supported'],
    [{ normalizer: { type: 'Nmt' } }, 'Nmt'],
    [{ decoder: { type: 'CTC' } }, 'the decoder'],
    [{ post_processor: { type: 'Other' } }, 'the post-processor'],
  ])('is refused by name with %j', async (changes, message) => {
    const source = {
      kind: 'huggingface',
      tokenizer: { ...tokenizer, ...changes },
      config: {},
      chatTemplate: undefined,
    } as const;
    const loading = loadTextModel(source, 1024);
    await expect(loading).rejects.toThrow(message);
    await expect(loading).rejects.toBeInstanceOf(UserError);
  });

  it('may not have more tokens than the model, but for added ones', () => {
    expect(() => compileTokenizer(tokenizer, {}, 300)).toThrow('outside the model');
    const { encoder } = compileTokenizer(
      {
        ...tokenizer,
        added_tokens: [
          { id: 1023, content: '<in>' },
          { id: 1024, content: '<out>' },
        ],
        post_processor: null,
      },
      {},
      1024,
    );
    expect(encoder.added.map((token) => token.content)).toEqual(['<in>']);
  });
});
