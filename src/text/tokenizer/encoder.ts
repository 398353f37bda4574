/** Text to token ids, on the thread of the caller: added tokens, normalizer, pre-tokenizer, merges, BOS and EOS. */
import { AddedTokenMatcher } from './added-tokens.js';
import { compileNormalizer } from './huggingface.js';
import { IdBuffer } from './id-buffer.js';
import { compilePreTokenizer } from './pre-tokenizer.js';
import { PieceEncoder } from './symbols.js';
import type { EncoderTables } from './tables.js';

export interface EncodeRequest {
  /** Put BOS (and the like) around the text where the tokenizer does; one that the text brings itself is not doubled. */
  readonly addSpecialTokens: boolean;
  /** Read the text of special tokens as the tokens. */
  readonly parseSpecialTokens: boolean;
  /** Offsets, rising, of characters that are part of no special token. */
  readonly guarded?: readonly number[];
}

export class Encoder {
  private readonly raw: AddedTokenMatcher;
  private readonly normalized: AddedTokenMatcher;
  private readonly normalize: (text: string) => string;
  private readonly preTokenize: ReturnType<typeof compilePreTokenizer>;
  private readonly pieces: PieceEncoder;
  private readonly ids = new IdBuffer();

  constructor(private readonly tables: EncoderTables) {
    this.normalize = compileNormalizer(tables.normalizer);
    this.preTokenize = compilePreTokenizer(tables.preTokenizer);
    this.pieces = new PieceEncoder(tables.symbols, tables.merges);
    this.raw = new AddedTokenMatcher(tables.added.filter((token) => !token.normalized));
    const normalized = tables.added.filter((token) => token.normalized);
    this.normalized = new AddedTokenMatcher(
      normalized.map((token) => ({ ...token, content: this.normalize(token.content) })),
    );
  }

  /** Lone surrogates are encoded as U+FFFD. */
  encode(text: string, request: EncodeRequest): Int32Array<ArrayBuffer> {
    const { ids } = this;
    const { prefix, suffix } = this.tables;
    ids.clear();
    for (const section of this.raw.split(wellFormed(text), request.parseSpecialTokens, request.guarded)) {
      if ('token' in section) ids.push(section.token);
      else this.encodeSection(this.normalize(section.text), section.start === 0);
    }
    const own = ids.slice();
    if (!request.addSpecialTokens) return own;
    ids.clear();
    if (!startsWith(own, prefix)) ids.pushAll(prefix);
    ids.pushAll(own);
    if (!endsWith(own, suffix)) ids.pushAll(suffix);
    return ids.slice();
  }

  private encodeSection(text: string, first: boolean): void {
    if (this.normalized.isEmpty) {
      this.encodePieces(text, first);
      return;
    }
    for (const section of this.normalized.split(text, false)) {
      if ('token' in section) this.ids.push(section.token);
      else this.encodePieces(section.text, first && section.start === 0);
    }
  }

  private encodePieces(text: string, first: boolean): void {
    if (text === '') return;
    for (const piece of this.preTokenize(text, first)) this.pieces.encode(piece, this.ids);
  }
}

function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd');
}

function startsWith(ids: Int32Array, prefix: readonly number[]): boolean {
  return prefix.every((id, i) => ids[i] === id);
}

function endsWith(ids: Int32Array, suffix: readonly number[]): boolean {
  return suffix.every((id, i) => ids[ids.length - suffix.length + i] === id);
}
