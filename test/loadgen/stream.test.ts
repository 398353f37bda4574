import { describe, expect, it } from 'vitest';
import { type StreamOutcome, StreamRecorder, type StreamTimeline } from '../../src/loadgen/stream.js';
import { completionChunk, DONE, FRAMINGS, usageChunk } from '../support/mock-openai.js';

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

/** One event a piece: the event at index i arrives at the time `times[i]`. */
function play(events: readonly string[], times?: readonly number[], clean = true): StreamOutcome {
  const recorder = new StreamRecorder();
  for (const [index, event] of events.entries()) recorder.push(encode(`data: ${event}\n\n`), times?.[index] ?? index);
  return recorder.end(clean);
}

function timelineOf(outcome: StreamOutcome): StreamTimeline {
  if ('failure' in outcome) throw new Error(`failed: ${outcome.failure.kind}, ${outcome.failure.message}`);
  return outcome.timeline;
}

function failureOf(outcome: StreamOutcome): string {
  return 'failure' in outcome ? outcome.failure.kind : 'completed';
}

const delta = (content: object, finish: string | null = null, usage?: number): string =>
  JSON.stringify({
    choices: [{ index: 0, delta: content, finish_reason: finish }],
    ...(usage === undefined ? {} : { usage: { prompt_tokens: 3, completion_tokens: usage } }),
  });

describe.each(FRAMINGS)('a stream framed with $name, cut at every byte (case 80)', ({ frame }) => {
  // Four tokens in the first chunk, then one each, and one that holds text back (case 79).
  const events = [
    completionChunk('vier Wörter é 🌊', { usage: 4 }),
    completionChunk(' fünf', { usage: 5 }),
    completionChunk('', { usage: 6 }),
    completionChunk(' sieben', { usage: 7, finish: 'length' }),
    usageChunk(7, 2),
    DONE,
  ];
  const framed = events.map((event) => encode(frame(event)));
  const bytes = Buffer.concat(framed);
  /** For each event, the number of bytes after which it is complete: up to the first byte of its blank line's end. */
  const completeAt = framed.map((piece, index) => {
    const before = framed.slice(0, index).reduce((sum, { length }) => sum + length, 0);
    const text = Buffer.from(piece).toString('latin1');
    const blank = text.lastIndexOf(': pong') >= 0 ? text.length : text.replace(/(\r\n|\r|\n)$/, '').length + 1;
    return before + blank;
  });

  it('gives every token the time of the piece that completed its event', () => {
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      const recorder = new StreamRecorder();
      recorder.push(bytes.subarray(0, cut), 100);
      recorder.push(bytes.subarray(cut), 250);
      const time = (event: number): number => (completeAt[event]! <= cut ? 100 : 250);
      expect(timelineOf(recorder.end(true)), `cut at ${cut}`).toEqual({
        chunks: [
          { at: time(0), tokens: 4 },
          { at: time(1), tokens: 1 },
          { at: time(2), tokens: 1 },
          { at: time(3), tokens: 1 },
        ],
        chunkTokens: 'server',
        firstTokenAt: time(0),
        lastAt: time(3),
        outputTokens: 7,
        outputTokensFrom: 'usage',
        promptTokens: 5,
        cachedTokens: 2,
        finishReason: 'length',
      });
    }
  });

  it('counts as cut wherever the connection breaks before [DONE] is complete, and as complete after', () => {
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      const recorder = new StreamRecorder();
      recorder.push(bytes.subarray(0, cut), 100);
      expect(failureOf(recorder.end(false)), `cut at ${cut}`).toBe(cut >= completeAt.at(-1)! ? 'completed' : 'cut');
    }
  });

  it('counts an error event as a failure from the byte that completes it on, whatever follows', () => {
    const error = frame(JSON.stringify({ error: { message: 'out of blocks', code: 500 } }));
    const failing = Buffer.concat([framed[0]!, encode(error), framed[3]!, framed[5]!]);
    for (let cut = 0; cut <= failing.length; cut += 1) {
      const recorder = new StreamRecorder();
      recorder.push(failing.subarray(0, cut), 1);
      recorder.push(failing.subarray(cut), 2);
      expect(recorder.end(true), `cut at ${cut}`).toEqual({
        failure: { kind: 'error_event', message: 'out of blocks' },
      });
    }
  });
});

describe('counting tokens (case 79, vllm#42661)', () => {
  it('assumes one token a chunk where usage comes only at the end, and takes the total from it', () => {
    const timeline = timelineOf(
      play([completionChunk('a'), completionChunk('b'), completionChunk('', { finish: 'stop' }), usageChunk(9), DONE]),
    );
    expect(timeline).toMatchObject({ outputTokens: 9, outputTokensFrom: 'usage', chunkTokens: 'assumed' });
    expect(timeline.chunks.map((chunk) => chunk.tokens)).toEqual([1, 1]);
  });

  it('does not give the last chunk all tokens because it alone has usage', () => {
    const timeline = timelineOf(
      play([completionChunk('a'), completionChunk('b'), completionChunk('c', { usage: 3, finish: 'stop' }), DONE]),
    );
    expect(timeline.chunks.map((chunk) => chunk.tokens)).toEqual([1, 1, 1]);
    expect(timeline.outputTokens).toBe(3);
  });

  it('counts chunks where there is no usage at all', () => {
    const timeline = timelineOf(play([completionChunk('a'), completionChunk('b', { finish: 'stop' }), DONE]));
    expect(timeline).toMatchObject({ outputTokens: 2, outputTokensFrom: 'chunks', chunkTokens: 'assumed' });
  });

  it.each([
    ['token_ids of the choice', { index: 0, text: 'a b', token_ids: [5, 6], finish_reason: 'stop' }],
    ['logprobs of a completion', { index: 0, text: 'a b', logprobs: { tokens: ['a', 'b'] }, finish_reason: 'stop' }],
    [
      'logprobs of a chat',
      { index: 0, delta: { content: 'ab' }, logprobs: { content: [{}, {}] }, finish_reason: 'stop' },
    ],
  ])('takes the number of tokens from %s', (_name, choice) => {
    const timeline = timelineOf(play([JSON.stringify({ choices: [choice] }), DONE]));
    expect(timeline).toMatchObject({ chunks: [{ at: 0, tokens: 2 }], chunkTokens: 'server', outputTokens: 2 });
  });

  it('leaves the role event of a chat out of TTFT and of the tokens', () => {
    const events = [delta({ role: 'assistant', content: '' }), delta({ content: 'a' }), delta({}, 'stop'), DONE];
    const timeline = timelineOf(play(events, [10, 50, 60, 61]));
    expect(timeline).toMatchObject({ firstTokenAt: 50, lastAt: 60, chunks: [{ at: 50, tokens: 1 }] });
  });

  it.each([
    ['reasoning_content', { reasoning_content: 'hm' }],
    ['reasoning', { reasoning: 'hm' }],
    ['tool_calls', { tool_calls: [{ index: 0, function: { name: 'f' } }] }],
  ])('sets TTFT by %s, not by the content that comes later (aiperf#1279)', (_name, content) => {
    const events = [delta(content), delta({ content: 'so' }, 'stop'), DONE];
    expect(timelineOf(play(events, [20, 90, 91])).firstTokenAt).toBe(20);
  });

  it('sets TTFT by a counted token whose text is held back', () => {
    const events = [delta({ content: '' }, null, 1), delta({ content: '語' }, 'stop', 2), DONE];
    expect(timelineOf(play(events, [20, 40, 41]))).toMatchObject({ firstTokenAt: 20, outputTokens: 2 });
  });

  it('completes an answer that is empty', () => {
    const timeline = timelineOf(play([completionChunk('', { finish: 'stop' }), usageChunk(0), DONE], [30, 31, 32]));
    expect(timeline).toMatchObject({ firstTokenAt: 30, outputTokens: 0, chunks: [] });
  });
});

describe('endings', () => {
  const token = completionChunk('a');
  const last = completionChunk('b', { finish: 'stop' });

  it.each([
    ['[DONE] and a clean end', [token, last, DONE], true, 'completed'],
    ['[DONE] and a broken connection', [token, last, DONE], false, 'completed'],
    ['[DONE] without a finish reason', [token, DONE], true, 'completed'],
    ['a finish reason and a clean end', [token, last], true, 'completed'],
    ['a finish reason and a broken connection', [token, last], false, 'cut'],
    ['a clean end after a token', [token], true, 'cut'],
    ['nothing', [], true, 'cut'],
    ['only [DONE]', [DONE], true, 'malformed'],
    ['only usage', [usageChunk(0), DONE], true, 'malformed'],
    ['what is not JSON', [token, '{"choices":[{', last, DONE], true, 'malformed'],
    ['JSON that is no object', [token, '[1]', last, DONE], true, 'malformed'],
    ['an error of OpenAI', [token, '{"error":{"message":"m"}}', DONE], true, 'error_event'],
    ['an error as text', [token, '{"error":"m"}', last, DONE], true, 'error_event'],
    ['an error object of old servers', [token, '{"object":"error","message":"m"}'], true, 'error_event'],
    ['an error after the finish reason', [token, last, '{"error":{"message":"m"}}', DONE], true, 'error_event'],
    ['finish_reason error', [token, completionChunk('', { finish: 'error' }), DONE], true, 'error_event'],
    ['finish_reason abort', [token, completionChunk('', { finish: 'abort' }), DONE], true, 'error_event'],
    [
      'error null on every chunk',
      ['{"error":null,"choices":[{"text":"a","finish_reason":"stop"}]}', DONE],
      true,
      'completed',
    ],
  ])('%s', (_name, events, clean, outcome) => {
    expect(failureOf(play(events, undefined, clean))).toBe(outcome);
  });

  it('an event named error, whatever its data', () => {
    const recorder = new StreamRecorder();
    recorder.push(encode(`data: ${token}\n\nevent: error\ndata: {"message":"gone"}\n\ndata: [DONE]\n\n`), 0);
    expect(failureOf(recorder.end(true))).toBe('error_event');
  });

  it('an event beyond the bound of the buffer', () => {
    const recorder = new StreamRecorder(1000);
    recorder.push(encode(`data: ${token}\n\ndata: ${'x'.repeat(2000)}`), 0);
    expect(recorder.settled).toBe(true);
    expect(failureOf(recorder.end(true))).toBe('malformed');
  });
});
