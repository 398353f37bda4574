/**
 * What an encoder needs to know of a tokenizer, in a form that structured cloning carries to the encoder thread: the
 * big tables are in shared memory, the rest is small.
 */
import type { AddedToken } from './added-tokens.js';
import type { MergeTable } from './merge-table.js';

export interface EncoderTables {
  readonly added: readonly AddedToken[];
  /** `normalizer` and `pre_tokenizer` as tokenizer.json writes them. */
  readonly normalizer: unknown;
  readonly preTokenizer: unknown;
  readonly symbols: SymbolTables;
  readonly merges: MergeTable;
  /** Ids put around a text by addSpecialTokens. */
  readonly prefix: readonly number[];
  readonly suffix: readonly number[];
}

/** How text becomes the symbols that are merged. */
export interface SymbolTables {
  /** `bytes`: symbols are bytes (byte-level BPE); `characters`: symbols are characters of the vocabulary. */
  readonly kind: 'bytes' | 'characters';
  /** Id of each byte's token, -1 where there is none. */
  readonly byteIds: Int32Array;
  /** Id of each character's token. */
  readonly characterIds: ReadonlyMap<string, number>;
  /** For characters that have no token: their UTF-8 bytes' tokens. */
  readonly byteFallback: boolean;
  /** For what has no token otherwise; without one it is left out. */
  readonly unknown: number | undefined;
  /** Neighbouring unknowns become one token. */
  readonly fuseUnknown: boolean;
  /** Whole pieces that are tokens skip the merges; undefined where merges decide. */
  readonly wholePieces: TokenTable | undefined;
}

/** A byte string for each token id, all in one buffer. */
export interface TokenTable {
  readonly bytes: Uint8Array;
  /** Token t is bytes[offsets[t]] up to bytes[offsets[t + 1]]. */
  readonly offsets: Int32Array;
}

/** Lays byte strings out in one buffer, in shared memory where other threads read it too. */
export function buildTokenTable(tokens: readonly Uint8Array[], shared: boolean): TokenTable {
  const allocate = (size: number) => (shared ? new SharedArrayBuffer(size) : new ArrayBuffer(size));
  const total = tokens.reduce((sum, token) => sum + token.length, 0);
  const bytes = new Uint8Array(allocate(total));
  const offsets = new Int32Array(allocate((tokens.length + 1) * Int32Array.BYTES_PER_ELEMENT));
  let at = 0;
  tokens.forEach((token, id) => {
    bytes.set(token, at);
    at += token.length;
    offsets[id + 1] = at;
  });
  return { bytes, offsets };
}

/** The bytes of a token, a view; empty for ids outside the table. */
export function bytesOfToken(table: TokenTable, token: number): Uint8Array {
  return table.bytes.subarray(table.offsets[token] ?? 0, table.offsets[token + 1] ?? table.offsets[token] ?? 0);
}
