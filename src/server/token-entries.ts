/**
 * Log probabilities of an answer's tokens, kept until the text of a token has been shown, so that the entries of every
 * chunk belong to its text and, joined, rebuild the answer: a token that a stop string cut off has no entry, one that it
 * cut through has the part that is shown, and a special token that is left out has an empty one.
 */
import type { TokenId, TokenLogprobs } from '../engine/protocol.js';
import type { TextModel } from '../text/text-model.js';

export interface TokenEntry {
  /** The text that this token completed; '' where it left a character open or shows nothing. */
  readonly text: string;
  /** The bytes it stands for. */
  readonly bytes: Uint8Array;
  readonly logprob: number;
  readonly top: readonly AlternativeEntry[];
}

export interface AlternativeEntry {
  readonly token: TokenId;
  readonly text: string;
  readonly bytes: Uint8Array;
  readonly logprob: number;
}

const lowest = -9999;

/** JSON has no infinities, and clients expect none. */
export function finite(logprob: number): number {
  return Number.isNaN(logprob) ? lowest : Math.max(logprob, lowest);
}

export function alternative(
  model: TextModel,
  { token, logprob }: { readonly token: TokenId; readonly logprob: number },
): AlternativeEntry {
  return { token, text: model.tokenText(token), bytes: model.tokenBytes(token), logprob: finite(logprob) };
}

interface Pending {
  readonly logprobs: TokenLogprobs;
  /** Offsets in the answer's text, UTF-16 units. */
  readonly start: number;
  end: number;
  readonly bytes: Uint8Array;
  /** Bytes of the answer before this token, minus the bytes of the text before it: what earlier tokens left open. */
  readonly openBytes: number;
  /** It leaves a character open: it is shown with the text after `end`. */
  readonly open: boolean;
  text: string;
}

const nothing = new Uint8Array(0);

export class TokenEntries {
  private pending: Pending[] = [];
  /** Length of the text of all tokens added. */
  private length = 0;
  /** Length of the text that was shown. */
  private shown = 0;
  private openBytes = 0;

  constructor(
    private readonly model: TextModel,
    private readonly skipSpecialTokens: boolean,
  ) {}

  /** Adds a generated token and the text that became complete with it. */
  add(logprobs: TokenLogprobs, text: string): void {
    const hidden = this.skipSpecialTokens && this.model.isSpecial(logprobs.token);
    const bytes = hidden ? nothing : this.model.tokenBytes(logprobs.token);
    const start = this.length;
    this.length += text.length;
    const closed = bytes.length > 0 && bytes[bytes.length - 1]! < 0x80;
    const openBytes = closed ? 0 : Math.max(0, this.openBytes + bytes.length - Buffer.byteLength(text));
    const open = openBytes > 0;
    this.pending.push({ logprobs, start, end: this.length, bytes, openBytes: this.openBytes, open, text });
    this.openBytes = openBytes;
  }

  /** Text that came after the last token, from what it left open. */
  extendLast(text: string): void {
    const last = this.pending.at(-1);
    this.length += text.length;
    if (last === undefined) return;
    last.text += text;
    last.end = this.length;
  }

  /** Entries whose text is shown completely after `length` more of it; all that are left when the answer has ended. */
  take(length: number, ended: boolean): TokenEntry[] {
    this.shown += length;
    const cut = ended && this.length > this.shown;
    const taken: TokenEntry[] = [];
    let count = 0;
    for (const item of this.pending) {
      const complete = item.open ? item.end < this.shown : item.end <= this.shown;
      if (!complete && (!ended || (cut && item.start >= this.shown))) break;
      taken.push(this.entry(item, cut && !complete));
      count++;
    }
    this.pending = ended ? [] : this.pending.slice(count);
    return taken;
  }

  private entry({ logprobs, start, bytes, openBytes, text }: Pending, cut: boolean): TokenEntry {
    const shownText = cut ? text.slice(0, this.shown - start) : text;
    return {
      text: shownText,
      bytes: cut ? bytes.subarray(0, Math.max(0, Buffer.byteLength(shownText) - openBytes)) : bytes,
      logprob: finite(logprobs.logprob),
      top: logprobs.top.map((other) => alternative(this.model, other)),
    };
  }
}
