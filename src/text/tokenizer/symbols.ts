/** Turns a piece of text into the ids of its tokens: first single symbols, then merges. */
import type { IdBuffer } from './id-buffer.js';
import { LONGEST_RUN, mergeSymbols } from './merge.js';
import type { MergeTable } from './merge-table.js';
import { bytesOfToken, type SymbolTables } from './tables.js';

/** Pieces up to this length are remembered; text repeats its words. */
const CACHED_LENGTH = 32;
const CACHED_PIECES = 16_384;

const utf8 = new TextEncoder();

export class PieceEncoder {
  private readonly cache = new Map<string, Int32Array>();
  private readonly whole: ReadonlyMap<string, number> | undefined;
  private symbols = new Int32Array(256);
  private length = 0;
  private lastWasUnknown = false;

  constructor(
    private readonly tables: SymbolTables,
    private readonly merges: MergeTable,
  ) {
    this.whole = tables.wholePieces === undefined ? undefined : indexTokens(tables.wholePieces);
  }

  /** Appends the ids of one piece, as the pre-tokenizer cuts them; the text must be well-formed UTF-16. */
  encode(piece: string, ids: IdBuffer): void {
    const cached = this.cache.get(piece);
    if (cached !== undefined) {
      ids.pushAll(cached);
      return;
    }
    const start = ids.length;
    this.encodeAfresh(piece, ids);
    if (piece.length > CACHED_LENGTH) return;
    if (this.cache.size >= CACHED_PIECES) this.cache.clear();
    this.cache.set(piece, ids.slice(start));
  }

  private encodeAfresh(piece: string, ids: IdBuffer): void {
    const bytes = this.tables.kind === 'bytes' || this.whole !== undefined ? utf8.encode(piece) : undefined;
    const whole = bytes === undefined ? undefined : this.whole?.get(latin1(bytes));
    if (whole !== undefined) {
      ids.push(whole);
      return;
    }
    this.begin(bytes?.length ?? piece.length * 3);
    if (this.tables.kind === 'bytes') this.addBytes(bytes!);
    else this.addCharacters(piece);
    const kept = mergeSymbols(this.merges, this.symbols, this.length);
    ids.pushAll(this.symbols.subarray(0, kept));
  }

  private begin(atMost: number): void {
    if (atMost > LONGEST_RUN) throw new RangeError(`a text of ${atMost} bytes is too long to encode`);
    if (atMost > this.symbols.length || this.symbols.length > 1 << 16)
      this.symbols = new Int32Array(Math.max(atMost, 256));
    this.length = 0;
    this.lastWasUnknown = false;
  }

  private addBytes(bytes: Uint8Array): void {
    for (const byte of bytes) this.add(this.tables.byteIds[byte]!);
  }

  private addCharacters(piece: string): void {
    const { characterIds, byteFallback, byteIds } = this.tables;
    for (const character of piece) {
      const id = characterIds.get(character);
      if (id !== undefined) {
        this.add(id);
        continue;
      }
      const bytes = byteFallback ? utf8.encode(character) : undefined;
      if (bytes?.every((byte) => byteIds[byte]! >= 0)) this.addBytes(bytes);
      else this.add(-1);
    }
  }

  /** Adds a symbol; -1 is the unknown one. */
  private add(id: number): void {
    const { unknown, fuseUnknown } = this.tables;
    if (id >= 0) this.symbols[this.length++] = id;
    else if (unknown !== undefined && !(fuseUnknown && this.lastWasUnknown)) this.symbols[this.length++] = unknown;
    this.lastWasUnknown = id < 0;
  }
}

function indexTokens(table: NonNullable<SymbolTables['wholePieces']>): Map<string, number> {
  const index = new Map<string, number>();
  for (let id = 0; id + 1 < table.offsets.length; id++) {
    const bytes = bytesOfToken(table, id);
    if (bytes.length > 0) index.set(latin1(bytes), id);
  }
  return index;
}

/** Bytes as a string of one character each, for use as a key. */
function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}
