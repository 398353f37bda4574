/**
 * Token ids back to text, token by token: bytes are joined and decoded as UTF-8, and a character whose bytes are still
 * open is held until they are complete. Nothing that was given out is ever changed afterwards.
 */

import type { Detokenizer } from './text-model.js';
import { bytesOfToken, type TokenTable } from './tokenizer/tables.js';

const SPACE = 0x20;

export interface DetokenizerTables {
  readonly tokenBytes: TokenTable;
  /** 1 for tokens to leave out; undefined leaves none out. */
  readonly skip: Uint8Array | undefined;
  /** Drop a space at the very start. */
  readonly dropFirstSpace: boolean;
}

export class ByteDetokenizer implements Detokenizer {
  private readonly utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
  private atStart: boolean;

  constructor(private readonly tables: DetokenizerTables) {
    this.atStart = tables.dropFirstSpace;
  }

  push(token: number): string {
    if (this.tables.skip?.[token] === 1) return '';
    let bytes = bytesOfToken(this.tables.tokenBytes, token);
    if (bytes.length === 0) return '';
    if (this.atStart) {
      this.atStart = false;
      if (bytes[0] === SPACE) bytes = bytes.subarray(1);
    }
    return this.utf8.decode(bytes, { stream: true });
  }

  flush(): string {
    return this.utf8.decode();
  }
}
