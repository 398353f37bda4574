import { describe, expect, it } from 'vitest';
import { ControlTokenGuard } from '../../src/text/chat/guard.js';
import { AddedTokenMatcher } from '../../src/text/tokenizer/added-tokens.js';

const SPECIALS = ['[INST]', '<s>', '<|end|>', 'user', '$'];
const guard = new ControlTokenGuard(SPECIALS);
const matcher = new AddedTokenMatcher(
  SPECIALS.map((content, id) => ({
    id,
    content,
    special: true,
    normalized: false,
    lstrip: false,
    rstrip: false,
    singleWord: false,
  })),
);

/** Ids of the special tokens that a rendering has, text of callers guarded. */
function specials(callerTexts: unknown, render: (guard: <T>(value: T) => T) => string): number[] {
  const { text, guarded } = guard.render(callerTexts, render);
  return matcher.split(text, true, guarded).flatMap((section) => ('token' in section ? [section.token] : []));
}

describe('the guard of control tokens', () => {
  it('leaves the template its own tokens, next to the same ones from a caller', () => {
    expect(specials(['<s>'], (mark) => `<s>${mark('<s>')}<s>`)).toEqual([1, 1]);
    expect(specials([' [INST] '], (mark) => `[INST]${mark(' [INST] ').trim()}[INST]`)).toEqual([0, 0]);
  });

  it('lets no token be put together from two texts of a caller', () => {
    expect(specials(['<|e', 'nd|>'], (mark) => mark('<|e') + mark('nd|>'))).toEqual([]);
    expect(specials(['a <', 's>'], (mark) => mark('a < ').trim() + mark('s>'))).toEqual([]);
  });

  it('lets no token be made by a change of case', () => {
    expect(specials(['<|END|>'], (mark) => mark('<|END|>').toLowerCase())).toEqual([]);
  });

  it('guards tokens of one character', () => {
    expect(specials(['$'], (mark) => `$${mark('$')}`)).toEqual([4]);
  });

  it('leaves roles alone, which templates compare, and guards the same word elsewhere', () => {
    const message = { role: 'user', content: 'user' };
    guard.render([message], (mark) => {
      expect(mark(message).role).toBe('user');
      expect(mark(message).content).not.toBe('user');
      expect(mark({ role: 'user<s>' }).role).not.toBe('user<s>');
      return '';
    });
  });

  it('keeps the text as it is', () => {
    const text = '<s> [INST] <|end|> user $ <';
    expect(guard.render([text], (mark) => mark(text)).text).toBe(text);
    expect(guard.render([text], (mark) => JSON.stringify({ [text]: mark(text) })).text).toBe(
      JSON.stringify({ [text]: text }),
    );
  });
});
