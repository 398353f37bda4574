/** POST /v1/completions, streamed and whole, on an engine that replays known tokens. */
import { describe, expect, it } from 'vitest';
import { byteTokens, end, FakeText, turn, word } from '../support/fake-text.js';
import { eventData, type Json, streamed, testApp } from '../support/server.js';

const oneTwo = [word('one'), word(' two'), word(' three')];

describe('a whole completion', () => {
  it('has the shape of text_completion', async () => {
    const { completion } = testApp({ reply: () => oneTwo });
    const response = await completion({});
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('application/json');
    const json: Json = await response.json();
    expect(json).toEqual({
      id: expect.stringMatching(/^cmpl-[0-9a-f]{32}$/),
      object: 'text_completion',
      created: expect.any(Number),
      model: 'fake-model',
      choices: [{ index: 0, text: 'one two three', logprobs: null, finish_reason: 'stop', stop_reason: end }],
      usage: {
        prompt_tokens: 1,
        completion_tokens: 4,
        total_tokens: 5,
        prompt_tokens_details: { cached_tokens: 0 },
      },
    });
  });

  it('generates 16 tokens where nothing is said', async () => {
    const { completion, engine } = testApp({ reply: () => Array(40).fill(word(' one')) });
    const json: Json = await (await completion({})).json();
    expect(json.usage.completion_tokens).toBe(16);
    expect(json.choices[0].finish_reason).toBe('length');
    expect(engine.requests[0]!.maxTokens).toBe(16);
  });

  it('takes a prompt in its four forms', async () => {
    const { completion, engine } = testApp({ reply: () => oneTwo });
    await completion({ prompt: 'Hello' });
    await completion({ prompt: ['Hello', ' one'] });
    await completion({ prompt: [1, 2, 3] });
    await completion({ prompt: [[4], [5, 6]] });
    expect(engine.requests.map(({ prompt }) => [...prompt])).toEqual([
      [word('Hello')],
      [word('Hello')],
      [word(' one')],
      [1, 2, 3],
      [4],
      [5, 6],
    ]);
  });

  it('numbers choices prompt by prompt', async () => {
    const { completion } = testApp({
      reply: ({ prompt }, choice) => byteTokens(`${prompt[0]}.${choice}`),
    });
    const json: Json = await (await completion({ prompt: [[7], [8]], n: 3 })).json();
    expect(json.choices.map((choice: Json) => [choice.index, choice.text])).toEqual([
      [0, '7.0'],
      [1, '7.1'],
      [2, '7.2'],
      [3, '8.0'],
      [4, '8.1'],
      [5, '8.2'],
    ]);
    expect(json.usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 24 });
  });

  it('repeats the prompt with echo, also without generating', async () => {
    const { completion } = testApp({ reply: () => oneTwo });
    const echoed: Json = await (await completion({ prompt: 'Hello world', echo: true })).json();
    expect(echoed.choices[0].text).toBe('Hello worldone two three');
    const only: Json = await (await completion({ prompt: 'Hello world', echo: true, max_tokens: 0 })).json();
    expect(only.choices[0]).toMatchObject({ text: 'Hello world', finish_reason: 'length' });
    expect(only.usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 0 });
    const ids: Json = await (await completion({ prompt: [word('Hello'), 32], echo: true, max_tokens: 0 })).json();
    expect(ids.choices[0].text).toBe('Hello ');
  });

  it('keeps the likeliest of best_of', async () => {
    const { completion, engine } = testApp({
      reply: (_, choice) => [word(['one', ' two', ' three', ' four'][choice]!)],
    });
    const all: Json = await (await completion({ n: 4, logprobs: 0 })).json();
    const likelihood = (choice: Json) => choice.logprobs.token_logprobs[0];
    const ranked = [...all.choices].sort((a, b) => likelihood(b) - likelihood(a)).map((choice) => choice.text);
    const best: Json = await (await completion({ n: 2, best_of: 4 })).json();
    expect(best.choices.map((choice: Json) => choice.text)).toEqual(ranked.slice(0, 2));
    expect(best.choices.map((choice: Json) => choice.index)).toEqual([0, 1]);
    expect(best.choices[0].logprobs).toBeNull();
    expect(best.usage.completion_tokens).toBe(8);
    expect(engine.requests[1]!.choices).toBe(4);
  });

  it('cuts a prompt to its last tokens on request', async () => {
    const { completion, engine } = testApp({ maxModelLen: 8 });
    const json: Json = await (
      await completion({ prompt: [1, 2, 3, 4], truncate_prompt_tokens: 2, echo: true, max_tokens: 0 })
    ).json();
    expect([...engine.requests[0]!.prompt]).toEqual([3, 4]);
    expect(json.choices[0].text).toBe('\x03\x04');
    await completion({ prompt: Array(20).fill(1), truncate_prompt_tokens: -1 });
    expect(engine.requests[1]!.prompt.length).toBe(7);
  });

  it('returns token ids on request', async () => {
    const { completion } = testApp({ reply: () => oneTwo });
    const json: Json = await (await completion({ return_token_ids: true })).json();
    expect(json.choices[0]).toMatchObject({ token_ids: [...oneTwo, end], prompt_token_ids: [word('Hello')] });
  });

  it('reports prompt_logprobs as vLLM does', async () => {
    const { completion, engine } = testApp({ reply: () => oneTwo });
    const json: Json = await (await completion({ prompt: [65, 66], prompt_logprobs: 2 })).json();
    expect(engine.requests[0]!.promptLogprobs).toBe(2);
    const [first, second] = json.choices[0].prompt_logprobs;
    expect(first).toBeNull();
    expect(second).toEqual({
      66: { logprob: expect.any(Number), rank: 1, decoded_token: 'B' },
      67: { logprob: expect.any(Number), rank: 2, decoded_token: 'C' },
    });
    const alone: Json = await (await completion({ prompt: [65, 66], prompt_logprobs: 0 })).json();
    expect(alone.choices[0].prompt_logprobs[1]).toEqual({
      66: { logprob: expect.any(Number), rank: 7, decoded_token: 'B' },
    });
  });

  it('adds special tokens to the prompt unless told not to', async () => {
    const { completion, engine } = testApp({ text: new FakeText({ addBos: true }) });
    await completion({ prompt: 'Hello' });
    await completion({ prompt: 'Hello', add_special_tokens: false });
    expect(engine.requests.map(({ prompt }) => prompt.length)).toEqual([2, 1]);
  });
});

describe('special and end tokens', () => {
  it('are counted and left out of the text', async () => {
    const { completion } = testApp({ reply: () => [word('one'), turn, word(' two')] });
    const json: Json = await (await completion({})).json();
    expect(json.choices[0].text).toBe('one two');
    expect(json.usage.completion_tokens).toBe(4);
  });

  it('are shown with skip_special_tokens false, but for the one that ends the answer', async () => {
    const { completion } = testApp({ reply: () => [word('one'), turn, word(' two')] });
    const json: Json = await (await completion({ skip_special_tokens: false })).json();
    expect(json.choices[0].text).toBe('one<|turn|> two');
    const included: Json = await (
      await completion({ skip_special_tokens: false, include_stop_str_in_output: true })
    ).json();
    expect(included.choices[0].text).toBe('one<|turn|> two<|end|>');
  });

  it('end an answer at stop_token_ids, which say so in stop_reason', async () => {
    const { completion, engine } = testApp({ reply: () => oneTwo });
    const json: Json = await (await completion({ stop_token_ids: [word(' two')] })).json();
    expect(json.choices[0]).toMatchObject({ text: 'one', finish_reason: 'stop', stop_reason: word(' two') });
    expect(engine.requests[0]!.endTokens).toEqual([end, word(' two')]);
  });

  it('are all of the model’s, none of which ends it with ignore_eos (case 45, vllm#4589)', async () => {
    const { completion, engine } = testApp({
      model: { endTokens: [end, turn] },
      reply: () => [word('one'), turn, word(' two'), end, ...oneTwo],
    });
    const json: Json = await (await completion({ ignore_eos: true, max_tokens: 6 })).json();
    expect(json.usage.completion_tokens).toBe(6);
    expect(json.choices[0].finish_reason).toBe('length');
    const other: Json = await (await completion({ min_tokens: 3, max_tokens: 6 })).json();
    expect(engine.requests[1]).toMatchObject({ endTokens: [end, turn], minTokens: 3 });
    expect(other.choices[0]).toMatchObject({ finish_reason: 'stop', stop_reason: end });
  });

  it('do not end it with ignore_eos', async () => {
    const { completion, engine } = testApp({ reply: () => oneTwo });
    const json: Json = await (await completion({ ignore_eos: true, max_tokens: 10 })).json();
    expect(engine.requests[0]!.endTokens).toEqual([]);
    expect(json.usage.completion_tokens).toBe(10);
    expect(json.choices[0]).toMatchObject({ text: 'one two three', finish_reason: 'length' });
  });
});

describe('a streamed completion', () => {
  it('is framed byte for byte as clients expect', async () => {
    const { completion } = testApp({ reply: () => oneTwo });
    const response = await completion({ stream: true });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    expect(response.headers.get('cache-control')).toBe('no-cache, no-transform');
    expect(response.headers.get('x-accel-buffering')).toBe('no');
    const text = await response.text();
    const id = response.headers.get('x-request-id');
    const created = JSON.parse(eventData(text)[0]!).created;
    const head = `data: {"id":"cmpl-${id}","object":"text_completion","created":${created},"model":"fake-model","choices":[{"index":0,"text":`;
    expect(text).toBe(
      [
        `${head}"one","logprobs":null,"finish_reason":null}]}\n\n`,
        `${head}" two","logprobs":null,"finish_reason":null}]}\n\n`,
        `${head}" three","logprobs":null,"finish_reason":null}]}\n\n`,
        `${head}"","logprobs":null,"finish_reason":"stop","stop_reason":${end}}]}\n\n`,
        'data: [DONE]\n\n',
      ].join(''),
    );
  });

  it('makes every chunk complete (case 39, vllm#19662)', async () => {
    const { completion } = testApp({ reply: () => oneTwo });
    const chunks = await streamed(await completion({ stream: true, n: 2, stream_options: { include_usage: true } }));
    const usage = chunks.pop();
    expect(usage.choices).toEqual([]);
    for (const chunk of chunks) {
      expect(chunk).toMatchObject({
        id: usage.id,
        object: 'text_completion',
        created: usage.created,
        model: 'fake-model',
      });
      for (const choice of chunk.choices) {
        expect(choice.index).toEqual(expect.any(Number));
        expect(choice.text).toEqual(expect.any(String));
        expect([null, 'stop', 'length']).toContain(choice.finish_reason);
      }
    }
    for (const index of [0, 1]) {
      const reasons = chunks.flatMap((chunk) => chunk.choices).filter((choice: Json) => choice.index === index);
      expect(reasons.filter((choice: Json) => choice.finish_reason !== null)).toHaveLength(1);
      expect(reasons.at(-1).finish_reason).toBe('stop');
    }
  });

  it('streams several choices at once (case 22, llama.cpp#20226)', async () => {
    const { completion } = testApp({ reply: (_, choice) => byteTokens(`choice ${choice}`) });
    const chunks = await streamed(await completion({ stream: true, n: 3, prompt: ['Hello', ' one'] }));
    const texts = Array(6).fill('');
    const ends: (string | null)[][] = Array.from(texts, () => []);
    for (const chunk of chunks) {
      for (const choice of chunk.choices) {
        texts[choice.index] += choice.text;
        ends[choice.index]!.push(choice.finish_reason);
      }
    }
    expect(texts).toEqual(['choice 0', 'choice 1', 'choice 2', 'choice 0', 'choice 1', 'choice 2']);
    for (const reasons of ends) {
      expect(reasons.pop()).toBe('stop');
      expect(reasons.every((reason) => reason === null)).toBe(true);
    }
  });

  it('never splits a character', async () => {
    const answer = 'naïve 👩‍👩‍👧 東京 é';
    const { completion } = testApp({ reply: () => byteTokens(answer) });
    const chunks = await streamed(await completion({ stream: true, max_tokens: 100 }));
    const texts: string[] = chunks.map((chunk) => chunk.choices[0].text);
    expect(texts.join('')).toBe(answer);
    for (const text of texts) expect(text).not.toContain('�');
  });

  it('shows what was held back when the answer ends inside a character (case 4, llama.cpp#9867)', async () => {
    const { completion } = testApp({ reply: () => [...byteTokens('ab'), ...byteTokens('🎉').slice(0, 2)] });
    const chunks = await streamed(await completion({ stream: true }));
    expect(chunks.map((chunk) => chunk.choices[0].text).join('')).toBe('ab�');
    const whole: Json = await (await completion({})).json();
    expect(whole.choices[0].text).toBe('ab�');
  });
});

describe('the first text of an answer', () => {
  it('continues the prompt: it is not the start of a text', async () => {
    const { completion } = testApp({ reply: () => byteTokens('🎉').slice(2) });
    const prompt = [65, ...byteTokens('🎉').slice(0, 2)];
    const json: Json = await (await completion({ prompt })).json();
    expect(json.choices[0].text).toBe('🎉');
  });
});
