/**
 * Keeps what callers write from becoming control tokens. Where a caller's text spells a special token, an invisible
 * mark is set after its first character before the template is rendered. Marks are no white space and never stand first,
 * so that templates trim, split and join as ever; afterwards they are taken out, and the characters that they stood
 * behind are remembered as guarded: no special token may contain them.
 *
 * A template that looks for a special token's text in a message does not find it there: the message has none.
 */
import { ChatTemplateError } from '../text-model.js';

export interface GuardedText {
  readonly text: string;
  /** Offsets, rising, of characters that must not be read as part of a control token. */
  readonly guarded: readonly number[];
}

interface Node {
  readonly children: Map<number, Node>;
  isEnd: boolean;
}

/** Noncharacters, which Unicode keeps for use inside programs; `template.ts` uses two others. */
const MARKS = Array.from({ length: 30 }, (_, i) => String.fromCharCode(0xfdd2 + i));

/** Values of `role` that are no caller's text; templates compare them. */
const ROLES: ReadonlySet<unknown> = new Set(['system', 'developer', 'user', 'assistant', 'tool', 'function']);

export class ControlTokenGuard {
  private readonly root: Node = { children: new Map(), isEnd: false };

  /** `specials`: the texts of the control tokens. */
  constructor(specials: readonly string[]) {
    for (const text of specials) {
      let node = this.root;
      for (const unit of units(text)) {
        let child = node.children.get(unit);
        if (child === undefined) {
          child = { children: new Map(), isEnd: false };
          node.children.set(unit, child);
        }
        node = child;
      }
      if (node !== this.root) node.isEnd = true;
    }
  }

  /** Runs `render` with a function that marks callers' texts, and takes the marks out of its result. */
  render(callerTexts: unknown, render: (guard: <T>(value: T) => T) => string): GuardedText {
    const all = JSON.stringify(callerTexts) ?? '';
    const mark = MARKS.find((candidate) => !all.includes(candidate) && !all.toLowerCase().includes(escaped(candidate)));
    if (mark === undefined) throw new ChatTemplateError('the messages use every noncharacter from U+FDD2 to U+FDEF');
    const rendered = render((value) => mapStrings(value, (text) => this.mark(text, mark)) as typeof value);
    // tojson(ensure_ascii=true) writes a mark as its escape.
    return takeOut(rendered.replaceAll(escaped(mark), mark), mark);
  }

  /** Sets a mark after the first character of all that is, or could be continued to, a special token's text. */
  private mark(text: string, mark: string): string {
    const trimmed = text.trimEnd().length;
    let marked = '';
    let done = 0;
    for (let at = 0; at < text.length; at++) {
      if (!this.root.children.has(fold(text.charCodeAt(at))) || !this.spellsAt(text, at, trimmed)) continue;
      marked += text.slice(done, at + 1) + mark;
      done = at + 1;
    }
    return marked + text.slice(done);
  }

  private spellsAt(text: string, start: number, trimmed: number): boolean {
    let node: Node | undefined = this.root;
    for (let at = start; at < text.length; at++) {
      if (at === trimmed) return true;
      node = node.children.get(fold(text.charCodeAt(at)));
      if (node === undefined) return false;
      if (node.isEnd) return true;
    }
    return true;
  }
}

function escaped(mark: string): string {
  return `\\u${mark.charCodeAt(0).toString(16)}`;
}

/** A template may change the case of a text: A to Z count as a to z. */
function fold(unit: number): number {
  return unit >= 0x41 && unit <= 0x5a ? unit + 0x20 : unit;
}

function* units(text: string): Generator<number> {
  for (let i = 0; i < text.length; i++) yield fold(text.charCodeAt(i));
}

function mapStrings(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === 'string') return map(value);
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, map));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      map(key),
      key === 'role' && ROLES.has(item) ? item : mapStrings(item, map),
    ]),
  );
}

function takeOut(rendered: string, mark: string): GuardedText {
  const guarded: number[] = [];
  let text = '';
  rendered.split(mark).forEach((part, i) => {
    if (i > 0 && text !== '' && guarded.at(-1) !== text.length - 1) guarded.push(text.length - 1);
    text += part;
  });
  return { text, guarded };
}
