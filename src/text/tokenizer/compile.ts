/** Turns a tokenizer.json and its tokenizer_config.json into the tables that encoders and detokenizers read. */
import { UserError } from '../../errors.js';
import type { AddedToken } from './added-tokens.js';
import { bytesOfAlphabet, charOfByte } from './byte-alphabet.js';
import { type ByteDecoder, compileByteDecoder } from './decoder.js';
import { readMerges } from './merges.js';
import { isByteLevel } from './pre-tokenizer.js';
import { buildTokenTable, type EncoderTables, type SymbolTables, type TokenTable } from './tables.js';
import { parseTokenizerJson, specialsAround, type TokenizerJson, tokenText } from './tokenizer-json.js';

export interface Tokenizer {
  readonly encoder: EncoderTables;
  /** Bytes each token stands for in an answer. */
  readonly tokenBytes: TokenTable;
  /** 1 for control tokens. */
  readonly special: Uint8Array;
  /** A text that begins with a space begins without it: the tokenizer puts one before every text. */
  readonly dropsFirstSpace: boolean;
}

/**
 * Ids from `vocabSize` on are left out: the model has no row for them. Throws UserError, naming what is not supported.
 */
export function compileTokenizer(
  source: unknown,
  config: Readonly<Record<string, unknown>>,
  vocabSize: number,
): Tokenizer {
  const json = parseTokenizerJson(source);
  const added = readAdded(json, vocabSize);
  const vocabulary = readVocabulary(json, vocabSize);
  const byteLevel = isByteLevel(json.pre_tokenizer);
  const decoder = compileByteDecoder(json.decoder, byteLevel);
  const addedIds = new Map(added.map((token) => [token.content, token.id]));
  const idOf = (text: string): number | undefined => addedIds.get(text) ?? vocabulary.get(text);
  return {
    encoder: {
      added,
      normalizer: json.normalizer ?? null,
      preTokenizer: json.pre_tokenizer ?? null,
      symbols: readSymbols(json, vocabulary, idOf),
      merges: readMerges(json, vocabulary),
      ...readAffixes(json, config, idOf),
    },
    tokenBytes: readBytes(vocabulary, added, decoder, byteLevel, vocabSize),
    special: specialFlags(added, vocabSize),
    dropsFirstSpace: decoder.dropsFirstSpace,
  };
}

function readAdded(json: TokenizerJson, vocabSize: number): AddedToken[] {
  return json.added_tokens
    .filter((token) => token.id < vocabSize && token.content !== '')
    .map((token) => ({
      id: token.id,
      content: token.content,
      special: token.special,
      // Control tokens are looked for in the raw text always, so that no normalizer can hide or make one.
      normalized: !token.special && (token.normalized ?? true) && json.normalizer != null,
      lstrip: token.lstrip,
      rstrip: token.rstrip,
      singleWord: token.single_word,
    }));
}

/** Token texts to ids, without control tokens: no text may merge into one. */
function readVocabulary(json: TokenizerJson, vocabSize: number): Map<string, number> {
  const added = new Set(json.added_tokens.map((token) => token.id));
  const special = new Set(json.added_tokens.filter((token) => token.special).map((token) => token.content));
  const vocabulary = new Map<string, number>();
  for (const [text, id] of Object.entries(json.model.vocab)) {
    if (!Number.isInteger(id) || id < 0) throw new UserError(`tokenizer: the token ${JSON.stringify(text)} has no id`);
    if (id < vocabSize) {
      if (!special.has(text)) vocabulary.set(text, id);
    } else if (!added.has(id)) {
      throw new UserError(`tokenizer: token ${id} lies outside the model's vocabulary of ${vocabSize}`);
    }
  }
  return vocabulary;
}

function readSymbols(
  json: TokenizerJson,
  vocabulary: ReadonlyMap<string, number>,
  idOf: (text: string) => number | undefined,
): SymbolTables {
  const bytes = isByteLevel(json.pre_tokenizer);
  const byteIds = new Int32Array(256).map(
    (_, byte) => vocabulary.get(bytes ? charOfByte(byte) : byteToken(byte)) ?? -1,
  );
  const { unk_token, fuse_unk, byte_fallback, ignore_merges } = json.model;
  return {
    kind: bytes ? 'bytes' : 'characters',
    byteIds,
    characterIds: bytes ? new Map() : new Map([...vocabulary].filter(([text]) => isOneCharacter(text))),
    byteFallback: byte_fallback,
    unknown: unk_token == null ? undefined : idOf(unk_token),
    fuseUnknown: fuse_unk,
    wholePieces: ignore_merges ? wholePieces(vocabulary, bytes) : undefined,
  };
}

function byteToken(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
}

function isOneCharacter(text: string): boolean {
  return text.length === 1 || (text.length === 2 && text.codePointAt(0)! > 0xffff);
}

const utf8 = new TextEncoder();

function wholePieces(vocabulary: ReadonlyMap<string, number>, byteLevel: boolean): TokenTable {
  const tokens: Uint8Array[] = [];
  for (const [text, id] of vocabulary)
    tokens[id] = (byteLevel ? bytesOfAlphabet(text) : utf8.encode(text)) ?? new Uint8Array();
  return buildTokenTable(
    Array.from(tokens, (token) => token ?? new Uint8Array()),
    true,
  );
}

/** What addSpecialTokens adds: the post-processor's, then `add_bos_token` and `add_eos_token` of the configuration. */
function readAffixes(
  json: TokenizerJson,
  config: Readonly<Record<string, unknown>>,
  idOf: (text: string) => number | undefined,
): { prefix: number[]; suffix: number[] } {
  const around = specialsAround(json.post_processor);
  const resolve = (texts: readonly string[]): number[] =>
    texts.map((text) => {
      const id = idOf(text);
      if (id === undefined) throw new UserError(`tokenizer: the post-processor adds ${text}, which is not a token`);
      return id;
    });
  const prefix = resolve(around.before);
  const suffix = resolve(around.after);
  const bos = idOf(tokenText(config['bos_token']) ?? '');
  const eos = idOf(tokenText(config['eos_token']) ?? '');
  return {
    prefix: switched(prefix, bos, config['add_bos_token']),
    suffix: switched(suffix, eos, config['add_eos_token']),
  };
}

/** With `wanted` true the token is there once, with false not at all; otherwise the list stays. */
function switched(list: number[], token: number | undefined, wanted: unknown): number[] {
  if (token === undefined || typeof wanted !== 'boolean') return list;
  if (!wanted) return list.filter((id) => id !== token);
  return list.includes(token) ? list : [token, ...list];
}

function readBytes(
  vocabulary: ReadonlyMap<string, number>,
  added: readonly AddedToken[],
  decoder: ByteDecoder,
  byteLevel: boolean,
  vocabSize: number,
): TokenTable {
  const tokens = new Array<Uint8Array>(vocabSize).fill(new Uint8Array());
  for (const [text, id] of vocabulary) tokens[id] = decoder.bytes(text);
  // Added tokens are not written in the byte alphabet, though their letters may be letters of it, too.
  for (const { id, content } of added) tokens[id] = byteLevel ? utf8.encode(content) : decoder.bytes(content);
  return buildTokenTable(tokens, false);
}

function specialFlags(added: readonly AddedToken[], vocabSize: number): Uint8Array {
  const flags = new Uint8Array(vocabSize);
  for (const token of added) if (token.special) flags[token.id] = 1;
  return flags;
}
