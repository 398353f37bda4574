/**
 * Finds the added tokens of a tokenizer (control tokens such as <|im_end|> and words added after training) in a text,
 * leftmost and longest first. Rules of matching follow huggingface/tokenizers, added_vocabulary.rs.
 */

export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** A control token: matched only where the caller allows it. */
  readonly special: boolean;
  /** Matched in normalized text instead of in the raw one. */
  readonly normalized: boolean;
  /** Takes the white space before it, or after it, along. */
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  /** Matches only where no word character touches it. */
  readonly singleWord: boolean;
}

/** A part of a text: an added token, or the text between them. */
export type Section = { readonly token: number } | { readonly text: string; readonly start: number };

interface Node {
  readonly children: Map<number, Node>;
  token: AddedToken | undefined;
}

const WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]/u;
const SPACE = /\s/u;

export class AddedTokenMatcher {
  private readonly root: Node = { children: new Map(), token: undefined };

  constructor(tokens: readonly AddedToken[]) {
    for (const token of tokens) {
      let node = this.root;
      for (let i = 0; i < token.content.length; i++) {
        const unit = token.content.charCodeAt(i);
        let child = node.children.get(unit);
        if (child === undefined) {
          child = { children: new Map(), token: undefined };
          node.children.set(unit, child);
        }
        node = child;
      }
      if (node !== this.root) node.token ??= token;
    }
  }

  get isEmpty(): boolean {
    return this.root.children.size === 0;
  }

  /**
   * Splits a text at its added tokens. Special tokens count only with `parseSpecial`, and only where they contain no
   * guarded character; `guarded` are offsets, rising.
   */
  split(text: string, parseSpecial: boolean, guarded: ArrayLike<number> = []): Section[] {
    const sections: Section[] = [];
    let done = 0;
    let next = 0;
    for (let at = 0; at < text.length; at++) {
      if (!this.root.children.has(text.charCodeAt(at))) continue;
      while (next < guarded.length && guarded[next]! < at) next++;
      const token = this.longestAt(text, at, parseSpecial ? (guarded[next] ?? text.length) : at);
      if (token === undefined) continue;
      let start = at;
      let end = at + token.content.length;
      while (token.lstrip && start > done && SPACE.test(text[start - 1]!)) start--;
      while (token.rstrip && end < text.length && SPACE.test(text[end]!)) end++;
      if (start > done) sections.push({ text: text.slice(done, start), start: done });
      sections.push({ token: token.id });
      done = end;
      at = end - 1;
    }
    if (done < text.length) sections.push({ text: text.slice(done), start: done });
    return sections;
  }

  /** Special tokens must end before `limit`. */
  private longestAt(text: string, start: number, limit: number): AddedToken | undefined {
    let longest: AddedToken | undefined;
    let node: Node | undefined = this.root;
    for (let end = start; end < text.length; end++) {
      node = node.children.get(text.charCodeAt(end));
      if (node === undefined) break;
      const token = node.token;
      if (token === undefined) continue;
      if (token.special && end >= limit) continue;
      if (token.singleWord && (wordEndsAt(text, start) || wordStartsAt(text, end + 1))) continue;
      longest = token;
    }
    return longest;
  }
}

function wordEndsAt(text: string, at: number): boolean {
  if (at === 0) return false;
  const low = text.charCodeAt(at - 1);
  const width = low >= 0xdc00 && low <= 0xdfff && at > 1 ? 2 : 1;
  return WORD.test(text.slice(at - width, at));
}

function wordStartsAt(text: string, at: number): boolean {
  return at < text.length && WORD.test(String.fromCodePoint(text.codePointAt(at)!));
}
