import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SseDecoder, type SseEvent } from '../../src/loadgen/sse.js';
import { FRAMINGS } from '../support/mock-openai.js';

function decode(pieces: readonly Uint8Array[], maxBufferSize?: number): { events: SseEvent[]; overflows: number } {
  const events: SseEvent[] = [];
  let overflows = 0;
  const decoder = new SseDecoder({
    onEvent: (event) => events.push(event),
    onOverflow: () => {
      overflows += 1;
    },
    ...(maxBufferSize === undefined ? {} : { maxBufferSize }),
  });
  for (const piece of pieces) decoder.push(piece);
  return { events, overflows };
}

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

/** JSON with characters of one to four bytes. */
const PAYLOADS = ['{"text":"a"}', '{"text":"é – 語","n":2}', '{"text":"🌊","list":[1,2],"end":true}'];

describe.each(FRAMINGS)('events framed with $name (case 80, openai-node#2309)', ({ frame }) => {
  const bytes = encode(PAYLOADS.map(frame).join(''));
  const parsed = (events: readonly SseEvent[]): unknown[] => events.map((event) => JSON.parse(event.data));
  const expected = PAYLOADS.map((payload) => JSON.parse(payload));

  it('are the same when cut at any byte', () => {
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      expect(parsed(decode([bytes.subarray(0, cut), bytes.subarray(cut)]).events), `cut at ${cut}`).toEqual(expected);
    }
  });

  it('are the same when every byte comes alone', () => {
    expect(parsed(decode([...bytes].map((byte) => Uint8Array.of(byte))).events)).toEqual(expected);
  });

  it('are seen as soon as their blank line is, without a look at what follows', () => {
    for (let count = 1; count <= PAYLOADS.length; count += 1) {
      expect(decode([encode(PAYLOADS.slice(0, count).map(frame).join(''))]).events).toHaveLength(count);
    }
  });
});

describe('SseDecoder', () => {
  it('gives the events of a reference reading of the standard, for any lines, ends and cuts', () => {
    const line = fc.oneof(
      fc.constantFrom('', '', 'data: x', 'data:y', 'data', 'data:  z', ': comment', 'event: tick', 'id: 3', 'other: 1'),
      fc.string({ unit: 'grapheme', maxLength: 6 }).map((text) => `data: ${text.replace(/[\r\n]/g, '')}`),
    );
    const stream = fc.array(fc.tuple(line, fc.constantFrom('\n', '\r\n', '\r')), { maxLength: 20 });
    fc.assert(
      fc.property(stream, fc.array(fc.nat(), { maxLength: 6 }), (lines, cuts) => {
        const bytes = encode(joinLines(lines));
        const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
        const pieces = places.slice(1).map((place, index) => bytes.subarray(places[index], place));
        expect(decode(pieces).events).toEqual(reference(lines.map(([text]) => text)));
      }),
    );
  });

  it('stops at an event that is longer than the bound, whether one line or many', () => {
    const longLine = decode([encode('data: '), ...Array.from({ length: 50 }, () => encode('x'.repeat(10)))], 100);
    expect(longLine).toEqual({ events: [], overflows: 1 });
    const manyLines = decode(
      Array.from({ length: 50 }, () => encode('data: xxxxx\n')),
      100,
    );
    expect(manyLines).toEqual({ events: [], overflows: 1 });
  });

  it('takes any number of events that are each within the bound', () => {
    const { events, overflows } = decode(
      Array.from({ length: 50 }, () => encode('data: xxxxx\n\n')),
      100,
    );
    expect({ count: events.length, overflows }).toEqual({ count: 50, overflows: 0 });
  });
});

/** A CR before an empty line that ends in LF would be read as one CRLF, as the standard says; such lines are joined so. */
function joinLines(lines: readonly (readonly [string, string])[]): string {
  return lines
    .map(([text, end], index) => {
      const next = lines[index + 1];
      const ambiguous = end === '\r' && next?.[0] === '' && next[1] === '\n';
      return text + (ambiguous ? '\n' : end);
    })
    .join('');
}

/** The standard's algorithm, line by line, without the fields that the decoder leaves out. */
function reference(lines: readonly string[]): SseEvent[] {
  const events: SseEvent[] = [];
  let data: string[] = [];
  let event: string | undefined;
  for (const line of lines) {
    if (line === '') {
      if (data.length > 0) events.push({ event, data: data.join('\n') });
      data = [];
      event = undefined;
      continue;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') data.push(value);
    if (field === 'event') event = value === '' ? undefined : value;
  }
  return events;
}
