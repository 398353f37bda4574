/**
 * Turns the tokenizer in a GGUF file's metadata into the tokenizer.json and tokenizer_config.json that it was made
 * from, so that one path reads both formats. Keys as in ggml's docs/gguf.md.
 */
import { z } from 'zod';
import { UserError } from '../../errors.js';
import { GGUF_PRE_TOKENIZERS } from './gguf-pre-tokenizers.js';

/** llama_token_type of llama.h. */
const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const BYTE = 6;

const KEYS = 'tokenizer.ggml.';
const list = <T>() => z.custom<ArrayLike<T>>((value) => Array.isArray(value) || ArrayBuffer.isView(value));
const id = z.coerce.number().int().nonnegative().optional();
const metadataSchema = z.object({
  model: z.string(),
  pre: z.string().optional(),
  tokens: list<string>(),
  token_type: list<number>().optional(),
  merges: list<string>().optional(),
  scores: list<number>().optional(),
  bos_token_id: id,
  eos_token_id: id,
  eot_token_id: id,
  unknown_token_id: id,
  padding_token_id: id,
  add_bos_token: z.boolean().optional(),
  add_eos_token: z.boolean().optional(),
  add_space_prefix: z.boolean().optional(),
});
type Metadata = z.infer<typeof metadataSchema>;

export interface TokenizerFiles {
  readonly tokenizer: unknown;
  readonly config: Readonly<Record<string, unknown>>;
}

/** Throws UserError for a tokenizer model or pre-tokenizer that is not known. */
export function readGgufTokenizer(metadata: Readonly<Record<string, unknown>>): TokenizerFiles {
  const entries = Object.entries(metadata).filter(([key]) => key.startsWith(KEYS));
  const parsed = metadataSchema.safeParse(
    Object.fromEntries(entries.map(([key, value]) => [key.slice(KEYS.length), value])),
  );
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new UserError(`tokenizer: ${KEYS}${issue?.path.join('.')}: ${issue?.message}`);
  }
  switch (parsed.data.model) {
    case 'gpt2':
      return byteLevel(parsed.data);
    case 'llama':
      return sentencePiece(parsed.data);
    default:
      throw new UserError(
        `tokenizer: ${KEYS}model ${JSON.stringify(parsed.data.model)} is not supported, only "gpt2" and "llama" are`,
      );
  }
}

function byteLevel(data: Metadata): TokenizerFiles {
  const pre = GGUF_PRE_TOKENIZERS.get(data.pre ?? '');
  if (pre === undefined) {
    const known = [...GGUF_PRE_TOKENIZERS.keys()].join(', ');
    const fault = data.pre === undefined ? 'is missing' : `${JSON.stringify(data.pre)} is not known`;
    throw new UserError(`tokenizer: ${KEYS}pre ${fault}; known are ${known}`);
  }
  if (data.merges === undefined) throw new UserError(`tokenizer: ${KEYS}merges is missing`);
  return {
    tokenizer: {
      added_tokens: addedTokens(data),
      normalizer: pre.normalizer === undefined ? null : { type: pre.normalizer },
      pre_tokenizer: {
        type: 'Sequence',
        pretokenizers: [
          ...pre.patterns.map((Regex) => ({ type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false })),
          { type: 'ByteLevel', add_prefix_space: false, use_regex: false },
        ],
      },
      post_processor: null,
      decoder: { type: 'ByteLevel' },
      model: {
        type: 'BPE',
        vocab: vocabulary(data),
        merges: Array.from(data.merges),
        ignore_merges: pre.ignoreMerges ?? false,
      },
    },
    config: config(data, pre.addBos ?? false),
  };
}

/** SentencePiece's BPE: white space is written as ▁, scores stand in for merges, bytes for unknown characters. */
function sentencePiece(data: Metadata): TokenizerFiles {
  if (data.scores === undefined) throw new UserError(`tokenizer: ${KEYS}scores is missing`);
  const prefix = data.add_space_prefix ?? true;
  return {
    tokenizer: {
      added_tokens: addedTokens(data),
      normalizer: {
        type: 'Sequence',
        normalizers: [
          ...(prefix ? [{ type: 'Prepend', prepend: '▁' }] : []),
          { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
        ],
      },
      pre_tokenizer: null,
      post_processor: null,
      decoder: {
        type: 'Sequence',
        decoders: [
          { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
          { type: 'ByteFallback' },
          { type: 'Fuse' },
          ...(prefix ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : []),
        ],
      },
      model: {
        type: 'BPE',
        vocab: vocabulary(data),
        scores: Array.from(data.scores),
        unk_token: textOf(data, data.unknown_token_id ?? 0),
        fuse_unk: true,
        byte_fallback: true,
      },
    },
    config: config(data, true),
  };
}

function typeOf(data: Metadata, token: number): number {
  return data.token_type?.[token] ?? NORMAL;
}

function vocabulary(data: Metadata): Record<string, number> {
  const vocab: Record<string, number> = Object.create(null);
  for (let token = 0; token < data.tokens.length; token++) {
    const type = typeOf(data, token);
    if (type === NORMAL || type === BYTE) vocab[data.tokens[token]!] = token;
  }
  return vocab;
}

function addedTokens(data: Metadata): unknown[] {
  // Files exist whose end tokens are not marked as control tokens.
  const control = new Set([data.bos_token_id, data.eos_token_id, data.eot_token_id]);
  const added: unknown[] = [];
  for (let id = 0; id < data.tokens.length; id++) {
    const type = typeOf(data, id);
    const special = type === CONTROL || type === UNKNOWN || control.has(id);
    if (special || type === USER_DEFINED) added.push({ content: data.tokens[id], id, special, normalized: false });
  }
  return added;
}

function textOf(data: Metadata, token: number | undefined): string | undefined {
  return token === undefined ? undefined : data.tokens[token];
}

function config(data: Metadata, addBosByDefault: boolean): Record<string, unknown> {
  return {
    bos_token: textOf(data, data.bos_token_id),
    eos_token: textOf(data, data.eos_token_id),
    unk_token: textOf(data, data.unknown_token_id),
    pad_token: textOf(data, data.padding_token_id),
    add_bos_token: data.add_bos_token ?? addBosByDefault,
    add_eos_token: data.add_eos_token ?? false,
  };
}

/** The chat templates as tokenizer_config.json writes them: tokenizer.chat_template and tokenizer.chat_template.NAME. */
export function readGgufChatTemplates(metadata: Readonly<Record<string, unknown>>): unknown {
  const key = 'tokenizer.chat_template';
  return Object.entries(metadata).flatMap(([name, template]) => {
    if (name === key) return [{ name: 'default', template }];
    return name.startsWith(`${key}.`) ? [{ name: name.slice(key.length + 1), template }] : [];
  });
}
