import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StopMatcher } from '../../src/text/stop-matcher.js';

/** Leftmost start over the whole text; of those that start there, the one that is complete first. */
function reference(stops: readonly string[], text: string): { start: number; stop: string } | undefined {
  const real = stops.filter((stop) => stop !== '');
  for (let start = 0; start < text.length; start++) {
    const here = real.filter((stop) => text.startsWith(stop, start)).sort((a, b) => a.length - b.length);
    if (here[0] !== undefined) return { start, stop: here[0] };
  }
  return undefined;
}

/** Length of the longest end of the text that a stop string properly begins with. */
function openEnd(stops: readonly string[], text: string): number {
  const lengths = stops.flatMap((stop) =>
    Array.from({ length: Math.max(0, stop.length - 1) }, (_, i) => i + 1).filter((n) =>
      text.endsWith(stop.slice(0, n)),
    ),
  );
  return Math.max(0, ...lengths);
}

function run(stops: readonly string[], pieces: readonly string[], includeStop = false) {
  const matcher = new StopMatcher(stops, { includeStop });
  const results = pieces.map((piece) => matcher.push(piece));
  const last = matcher.flush();
  return {
    text: [...results, last].map((result) => result.text).join(''),
    results,
    last,
  };
}

const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 5 });
const pieces = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 6 }), { maxLength: 20 });

describe('StopMatcher', () => {
  it('gives what a search over the whole text gives, however the text is cut', () => {
    fc.assert(
      fc.property(fc.array(word, { maxLength: 4 }), pieces, fc.boolean(), (stops, cut, includeStop) => {
        const text = cut.join('');
        const expected = reference(stops, text);
        const { text: given, last } = run(stops, cut, includeStop);
        if (expected === undefined) {
          expect(given).toBe(text);
          expect(last.stopped).toBe(false);
        } else {
          const end = expected.start + (includeStop ? expected.stop.length : 0);
          expect(given).toBe(text.slice(0, end));
          expect(last).toMatchObject({ stopped: true, matched: expected.stop });
        }
      }),
      { numRuns: 3000 },
    );
  });

  it('holds back no more than what may still become a stop string (case 5, vllm#11089)', () => {
    fc.assert(
      fc.property(fc.array(word, { maxLength: 4 }), pieces, (stops, cut) => {
        const matcher = new StopMatcher(stops, { includeStop: false });
        let text = '';
        let given = '';
        for (const piece of cut) {
          text += piece;
          const result = matcher.push(piece);
          given += result.text;
          if (result.stopped) break;
          expect(given).toBe(text.slice(0, text.length - openEnd(stops, text)));
        }
      }),
      { numRuns: 3000 },
    );
  });

  it('finds a stop string that spans pieces (case 3, mlx-knife#68)', () => {
    const { text, results } = run(['</answer>'], ['42</', 'ans', 'wer', '>', ' more']);
    expect(text).toBe('42');
    expect(results.map((result) => result.stopped)).toEqual([false, false, false, true, true]);
    expect(results.map((result) => result.text)).toEqual(['42', '', '', '', '']);
  });

  it('gives held text out at the end (case 4, llama.cpp#9867)', () => {
    const { results, last } = run(['###'], ['one ##']);
    expect(results[0]).toEqual({ text: 'one ', stopped: false });
    expect(last).toEqual({ text: '##', stopped: false });
  });

  it.each([[[]], [['']], [['', '']]])('passes all text on without stop strings: %j (case 6, mlc-llm#2070)', (stops) => {
    const { results, last } = run(stops, ['a', '', 'bc']);
    expect(results.map((result) => result.text)).toEqual(['a', '', 'bc']);
    expect(last).toEqual({ text: '', stopped: false });
  });

  it('drops all that comes after the match (case 38, vmlx-swift#109)', () => {
    const { text, last } = run(['three'], ['one two th', 'ree fo', 'ur']);
    expect(text).toBe('one two ');
    expect(last).toEqual({ text: '', stopped: true, matched: 'three' });
  });

  it('waits for a stop string that started earlier than a complete one', () => {
    expect(run(['abcd', 'bc'], ['xab', 'cd']).text).toBe('x');
    expect(run(['abcd', 'bc'], ['xab', 'ce']).text).toBe('xa');
    expect(run(['abcd', 'bc'], ['xab', 'c']).text).toBe('xa');
  });

  it('is linear in the text for stop strings that keep almost matching', () => {
    const stop = `${'a'.repeat(20_000)}b`;
    const matcher = new StopMatcher([stop], { includeStop: false });
    let given = 0;
    for (let i = 0; i < 300_000; i++) given += matcher.push('a').text.length;
    expect(given).toBe(280_000);
    expect(matcher.push('b')).toEqual({ text: '', stopped: true, matched: stop });
  });
});
