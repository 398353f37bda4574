/** What is refused, with which status, and how the answer names the fault: OpenAI's error shape everywhere. */
import { describe, expect, it } from 'vitest';
import { FakeText, vocabSize, word } from '../support/fake-text.js';
import { eventData, type Json, testApp } from '../support/server.js';

async function error(response: Response): Promise<Json> {
  expect(response.headers.get('content-type')).toBe('application/json');
  const json: Json = await response.json();
  expect(Object.keys(json)).toEqual(['error']);
  expect(json.error).toEqual({
    message: expect.any(String),
    type: expect.any(String),
    param: json.error.param === null ? null : expect.any(String),
    code: json.error.code === null ? null : expect.any(String),
  });
  expect(json.error.message).not.toBe('');
  return json.error;
}

/** Raw JSON, so that numbers beyond a double can be written; the field that must be named; a part of the message. */
type BadBody = [body: string, param: string | null, message?: RegExp];

const both: BadBody[] = [
  ['{"temperature":-1}', 'temperature', /at least 0/],
  ['{"temperature":1e999}', 'temperature', /finite/],
  ['{"temperature":-1e999}', 'temperature', /finite/],
  ['{"temperature":"hot"}', 'temperature', /number/],
  ['{"temperature":101}', 'temperature'],
  ['{"top_p":-1}', 'top_p'],
  ['{"top_p":1.01}', 'top_p'],
  ['{"top_p":1e999}', 'top_p'],
  ['{"top_k":-2}', 'top_k'],
  ['{"top_k":1.5}', 'top_k', /integer/],
  ['{"top_k":1e999}', 'top_k'],
  ['{"min_p":-0.1}', 'min_p'],
  ['{"min_p":2}', 'min_p'],
  ['{"repetition_penalty":0}', 'repetition_penalty', /greater than 0/],
  ['{"repetition_penalty":1e999}', 'repetition_penalty'],
  ['{"presence_penalty":2.1}', 'presence_penalty'],
  ['{"frequency_penalty":-3}', 'frequency_penalty'],
  ['{"n":0}', 'n'],
  ['{"n":1.5}', 'n', /integer/],
  ['{"n":5000000}', 'n', /at most 128/],
  ['{"n":"2"}', 'n'],
  ['{"max_tokens":-1}', 'max_tokens'],
  ['{"max_tokens":1.5}', 'max_tokens', /integer/],
  ['{"max_tokens":1e999}', 'max_tokens'],
  ['{"max_tokens":"10"}', 'max_tokens'],
  ['{"max_tokens":9007199254740993}', 'max_tokens'],
  ['{"min_tokens":-1}', 'min_tokens'],
  ['{"min_tokens":20,"max_tokens":10}', 'min_tokens', /at most the 10/],
  ['{"seed":1.5}', 'seed'],
  ['{"seed":"1"}', 'seed'],
  ['{"seed":18446744073709551616}', 'seed', /64 bits/],
  ['{"seed":1e999}', 'seed'],
  ['{"stop":3}', 'stop'],
  ['{"stop":["a",3]}', 'stop[1]'],
  [`{"stop":${JSON.stringify(Array(17).fill('a'))}}`, 'stop', /16/],
  [`{"stop":"${'a'.repeat(10_001)}"}`, 'stop', /10000 characters/],
  [`{"stop":["a","${'a'.repeat(10_001)}"]}`, 'stop[1]', /10000 characters/],
  ['{"stop_token_ids":[-1]}', 'stop_token_ids[0]'],
  [`{"stop_token_ids":[1,${vocabSize}]}`, 'stop_token_ids[1]', /vocabulary/],
  [`{"allowed_token_ids":[${vocabSize}]}`, 'allowed_token_ids[0]', /vocabulary/],
  ['{"allowed_token_ids":[]}', 'allowed_token_ids', /empty/],
  ['{"bad_words":[1]}', 'bad_words[0]'],
  ['{"bad_words":[" "]}', 'bad_words[0]'],
  ['{"logit_bias":[]}', 'logit_bias'],
  ['{"logit_bias":{"1":"x"}}', 'logit_bias.1'],
  ['{"logit_bias":{"1":101}}', 'logit_bias.1'],
  ['{"logit_bias":{"1":1e999}}', 'logit_bias.1'],
  ['{"logit_bias":{"one":1}}', 'logit_bias', /'one'/],
  ['{"logit_bias":{"-1":1}}', 'logit_bias'],
  ['{"logit_bias":{"1.5":1}}', 'logit_bias'],
  [`{"logit_bias":{"${vocabSize}":1}}`, 'logit_bias', /vocabulary/],
  ['{"logit_bias":{"999999999999999999999":1}}', 'logit_bias'],
  ['{"prompt_logprobs":21}', 'prompt_logprobs'],
  ['{"prompt_logprobs":1,"stream":true}', 'prompt_logprobs', /stream/],
  ['{"truncate_prompt_tokens":-2}', 'truncate_prompt_tokens'],
  ['{"truncate_prompt_tokens":0}', 'truncate_prompt_tokens', /nothing would be left/],
  ['{"stream":"yes"}', 'stream'],
  ['{"stream":1}', 'stream'],
  ['{"stream_options":{"include_usage":true}}', 'stream_options', /'stream' is true/],
  ['{"stream_options":{"include_usage":true},"stream":false}', 'stream_options'],
  ['{"stream_options":{"include_usage":1},"stream":true}', 'stream_options.include_usage'],
  ['{"ignore_eos":"no"}', 'ignore_eos'],
  ['{"priority":0.5}', 'priority'],
  ['{"user":3}', 'user'],
  ['{"model":3}', 'model'],
  ['{"request_id":""}', 'request_id'],
];

const completionsOnly: BadBody[] = [
  ['{"prompt":null}', 'prompt'],
  ['{"prompt":3}', 'prompt'],
  ['{"prompt":{}}', 'prompt'],
  ['{"prompt":[]}', 'prompt', /empty/],
  ['{"prompt":""}', 'prompt', /no tokens/],
  ['{"prompt":[[]]}', 'prompt', /no tokens/],
  ['{"prompt":["a",""]}', 'prompt[1]', /no tokens/],
  ['{"prompt":["a",3]}', 'prompt'],
  ['{"prompt":[1,"a"]}', 'prompt'],
  ['{"prompt":[1.5]}', 'prompt'],
  ['{"prompt":[-1]}', 'prompt'],
  ['{"prompt":[1e999]}', 'prompt'],
  ['{"prompt":[[1],[null]]}', 'prompt'],
  ['{"prompt":[999999999]}', 'prompt', /vocabulary/],
  ['{"prompt":[[999999999]]}', 'prompt', /vocabulary/],
  [`{"prompt":[[1],[${vocabSize}]]}`, 'prompt[1]', /vocabulary/],
  ['{"logprobs":-1}', 'logprobs'],
  ['{"logprobs":21}', 'logprobs'],
  ['{"logprobs":true}', 'logprobs'],
  ['{"best_of":1,"n":2}', 'best_of', /at least 'n'/],
  ['{"best_of":2,"stream":true}', 'best_of', /stream/],
  ['{"best_of":5000000}', 'best_of'],
  ['{"echo":"yes"}', 'echo'],
  ['{"suffix":"end"}', 'suffix', /not supported/],
  [`{"prompt":${JSON.stringify(Array(2049).fill('a'))}}`, 'prompt'],
  [`{"prompt":${JSON.stringify(Array(100).fill('a'))},"n":128}`, 'n'],
];

const chatOnly: BadBody[] = [
  ['{"messages":null}', 'messages'],
  ['{"messages":"hi"}', 'messages'],
  ['{"messages":[]}', 'messages', /empty/],
  [`{"messages":${JSON.stringify(Array(10_001).fill({ role: 'user', content: 'a' }))}}`, 'messages', /10000/],
  ['{"messages":["hi"]}', 'messages[0]'],
  ['{"messages":[{"content":"hi"}]}', 'messages[0].role'],
  ['{"messages":[{"role":"banana","content":"hi"}]}', 'messages[0].role', /must be one of/],
  ['{"messages":[{"role":"user"}]}', 'messages[0].content'],
  ['{"messages":[{"role":"user","content":null}]}', 'messages[0].content'],
  ['{"messages":[{"role":"user","content":3}]}', 'messages[0].content'],
  ['{"messages":[{"role":"user","content":["hi"]}]}', 'messages[0].content[0]'],
  ['{"messages":[{"role":"user","content":[{"text":"hi"}]}]}', 'messages[0].content[0].type'],
  ['{"messages":[{"role":"user","content":[{"type":"text"}]}]}', 'messages[0].content[0].text'],
  [
    '{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}',
    'messages[0].content[0].type',
    /only text/,
  ],
  ['{"max_tokens":0}', 'max_tokens'],
  ['{"max_completion_tokens":0}', 'max_completion_tokens'],
  ['{"max_completion_tokens":-5}', 'max_completion_tokens'],
  ['{"logprobs":1}', 'logprobs'],
  ['{"top_logprobs":1000000000,"logprobs":true}', 'top_logprobs'],
  ['{"top_logprobs":5}', 'top_logprobs', /'logprobs' is true/],
  ['{"continue_final_message":true,"add_generation_prompt":true}', 'continue_final_message'],
  ['{"tool_choice":"required"}', 'tool_choice'],
  ['{"tool_choice":{"type":"function","function":{"name":"f"}}}', 'tool_choice'],
  ['{"tools":[{}]}', 'tools[0].type'],
  ['{"response_format":{"type":"json_object"}}', 'response_format', /json_object/],
  ['{"chat_template_kwargs":[]}', 'chat_template_kwargs'],
];

/** The fields of a bad body over those of a good one, still as raw JSON. */
function merged(good: object, bad: string): string {
  const fields = Object.entries(good).filter(([key]) => !bad.includes(`"${key}":`));
  const rest = JSON.stringify(Object.fromEntries(fields)).slice(1, -1);
  return `{${[rest, bad.slice(1, -1)].filter((part) => part !== '').join(',')}}`;
}

const endpoints: [path: string, good: object, bodies: BadBody[]][] = [
  ['/v1/completions', { model: 'fake-model', prompt: 'Hello' }, [...both, ...completionsOnly]],
  ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello' }] }, [...both, ...chatOnly]],
];

describe.each(endpoints)('%s refuses (cases 11, 12, 13, 14, 15, 46)', (path, good, bodies) => {
  it.each(bodies.map((body) => [body[0].slice(0, 80), ...body] as const))('%s', async (_, bad, param, message) => {
    const { post, engine } = testApp();
    const response = await post(path, merged(good, bad));
    const { type, param: named, message: text } = await error(response);
    expect(response.status).toBe(400);
    expect(type).toBe('invalid_request_error');
    expect(named).toBe(param);
    expect(text).toContain(`'${param?.split(/[[.]/)[0]}`);
    if (message) expect(text).toMatch(message);
    expect(engine.requests).toEqual([]);
  });

  it('bodies that are no JSON object', async () => {
    const { post } = testApp();
    for (const body of ['', '{', '[]', '3', 'null', '"text"', 'hello', '{"prompt":}']) {
      const response = await post(path, body);
      expect(response.status).toBe(400);
      expect(await error(response)).toMatchObject({ param: null, type: 'invalid_request_error' });
    }
  });

  it('nesting without end, but not brackets in a text', async () => {
    const { post } = testApp();
    const deep = `${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`;
    for (const field of ['tools', 'prompt', 'chat_template_kwargs', 'anything']) {
      const response = await post(path, merged(good, `{"${field}":${deep}}`));
      expect(response.status).toBe(400);
      expect(await error(response)).toMatchObject({ param: null, message: expect.stringContaining('nested deeper') });
    }
    const brackets = { ...good, user: '[{"\\'.repeat(200), tools: null };
    expect((await post(path, brackets)).status).toBe(200);
  });

  it('another model, with 404', async () => {
    const { post } = testApp();
    const response = await post(path, { ...good, model: 'gpt-4' });
    expect(response.status).toBe(404);
    expect(await error(response)).toMatchObject({ code: 'model_not_found', param: 'model' });
  });

  it('a prompt longer than the context, before a stream begins (case 18, llama.cpp#14566, vllm#33418)', async () => {
    const { post, engine } = testApp({ maxModelLen: 10 });
    const long = 'x'.repeat(10);
    const body = path.includes('chat') ? { messages: [{ role: 'user', content: long }] } : { prompt: long };
    for (const stream of [false, true]) {
      const response = await post(path, { ...body, stream });
      expect(response.status).toBe(400);
      expect(await error(response)).toMatchObject({
        code: 'context_length_exceeded',
        message: expect.stringMatching(/10 tokens/),
      });
    }
    expect(engine.requests).toEqual([]);
  });

  it('nothing that is only unusual', async () => {
    const { post, engine } = testApp();
    const nulls = Object.fromEntries(
      'model stream stream_options max_tokens n stop seed temperature top_p logit_bias user logprobs tools echo'
        .split(' ')
        .map((key) => [key, null]),
    );
    const unusual = [
      nulls,
      { unknown_key: { a: 1 } },
      { temperature: 1e-320 },
      { top_p: 0 },
      { top_k: -1 },
      { seed: 2 ** 53 + 2 },
      { seed: -(2 ** 63) },
      { max_tokens: 2 ** 31 - 1 },
      { logit_bias: { 1: -100, 2: 100 } },
      { stop: Array(16).fill('a') },
      { model: 'fake-model' },
    ];
    for (const fields of unusual) {
      const response = await post(path, { ...good, ...fields });
      expect([response.status, fields]).toEqual([200, fields]);
    }
    const sampling = engine.requests.map((request) => request.sampling);
    for (const { seed, topP, topK } of sampling) {
      expect(Number.isSafeInteger(seed)).toBe(true);
      expect(topP).toBeGreaterThan(0);
      expect(topK).toBe(0);
    }
    expect(sampling[2]!.temperature).toBe(0);
  });

  it('no request for its Content-Type (case 20, vllm#11171)', async () => {
    const { post } = testApp();
    for (const type of ['application/json; charset=utf-8', 'text/plain', 'application/x-www-form-urlencoded', '']) {
      const headers: Record<string, string> = type === '' ? {} : { 'Content-Type': type };
      const response = await post(path, '', { headers, body: new TextEncoder().encode(JSON.stringify(good)) });
      expect(response.status).toBe(200);
    }
  });

  it('no lone surrogate (case 19)', async () => {
    const { post, engine } = testApp();
    const text = JSON.stringify('a\ud800b');
    const body = path.includes('chat')
      ? `{"messages":[{"role":"user","content":${text}}],"stop":${text}}`
      : `{"prompt":${text},"stop":${text},"echo":true}`;
    const response = await post(path, body);
    expect(response.status).toBe(200);
    // It stands for what no UTF-8 can say.
    expect(Buffer.from(engine.requests[0]!.prompt).toString()).toContain('a\ufffdb');
    expect(await response.text()).not.toMatch(/\p{Surrogate}/u);
  });
});

describe('empty prompts (case 12, vllm#7632)', () => {
  it('are continued where the tokenizer begins every text with a token', async () => {
    const { completion, engine } = testApp({ text: new FakeText({ addBos: true }) });
    expect((await completion({ prompt: '' })).status).toBe(200);
    expect(engine.requests[0]!.prompt.length).toBe(1);
  });
});

describe('an engine that fails', () => {
  const faults = [
    ['too_long', 400, 'context_length_exceeded', null],
    ['queue_full', 429, 'queue_full', '1'],
    ['timeout', 503, 'timeout', '1'],
    ['step_failed', 500, 'step_failed', null],
    ['closed', 503, 'engine_closed', '5'],
  ] as const;

  for (const asOutput of [false, true]) {
    it.each(faults)(
      `with %s before the first token gives a status (${asOutput ? 'output' : 'thrown'})`,
      async (code, status, name, retry) => {
        const { completion, engine } = testApp({ failAt: { step: 0, code, asOutput } });
        for (const stream of [false, true]) {
          const response = await completion({ stream });
          expect(response.status).toBe(status);
          expect(response.headers.get('retry-after')).toBe(retry);
          expect(await error(response)).toMatchObject({ code: name, message: `failed with ${code}` });
        }
        expect(engine.running).toBe(0);
      },
    );

    it(`in mid-stream ends the stream with an error event (${asOutput ? 'output' : 'thrown'})`, async () => {
      const { completion, records } = testApp({
        reply: () => [word('one'), word(' two'), word(' three')],
        failAt: { step: 2, code: 'step_failed', asOutput },
      });
      const response = await completion({ stream: true });
      expect(response.status).toBe(200);
      const data = eventData(await response.text());
      expect(data).toHaveLength(4);
      expect(JSON.parse(data[2]!)).toEqual({
        error: { message: 'failed with step_failed', type: 'server_error', param: null, code: 'step_failed' },
      });
      expect(data[3]).toBe('[DONE]');
      expect(records[0]).toMatchObject({ error: 'failed with step_failed', streamed: true });
      const whole = await completion({});
      expect(whole.status).toBe(500);
    });
  }

  it('on one of several prompts ends the others', async () => {
    const { completion, engine } = testApp({
      reply: () => Array(100).fill(word('one')),
      beforeStep: (step, { prompt }) => {
        if (prompt[0] === 66 && step === 3) throw new Error('broken');
        return new Promise((resolve) => setTimeout(resolve, 1));
      },
    });
    const response = await completion({ prompt: ['A', 'B'], max_tokens: 100 });
    expect(response.status).toBe(500);
    expect(await error(response)).toMatchObject({ code: 'internal_error', type: 'server_error' });
    expect(engine.running).toBe(0);
    expect(engine.aborted).toBe(2);
  });

  it('unexpectedly tells the caller nothing of the cause', async () => {
    const { completion, records } = testApp({
      beforeStep: () => {
        throw new Error('secret path');
      },
    });
    const response = await completion({});
    expect(response.status).toBe(500);
    expect((await error(response)).message).not.toContain('secret');
    expect(records[0]!.cause).toBeInstanceOf(Error);
  });
});
