/** POST /v1/responses: the object, its stream of typed events, and that both are what the official client takes. */
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { byteTokens, end, word } from '../support/fake-text.js';
import { type Json, type TestServer, type TestSetup, testApp, testServer } from '../support/server.js';

const reply = (): number[] => [word('one'), ...byteTokens('é🎉'), word(' two')];

function ask(setup: TestSetup, body: object): Promise<Response> {
  return Promise.resolve(testApp(setup).post('/v1/responses', { input: 'Hello', ...body }));
}

interface Event {
  readonly event: string;
  readonly data: Json;
}

async function events(response: Response): Promise<Event[]> {
  const blocks = (await response.text()).split('\n\n');
  expect(blocks.pop()).toBe('');
  return blocks.map((block) => {
    const [, event, data] = /^event: (\S+)\ndata: (.+)$/.exec(block) ?? [];
    const json: Json = JSON.parse(data!);
    expect(json.type).toBe(event);
    return { event: event!, data: json };
  });
}

describe('a whole response', () => {
  it('has the shape of response', async () => {
    const response = await ask({ reply, cachedTokens: 2 }, { instructions: 'Be short.', metadata: { a: 'b' } });
    const json: Json = await response.json();
    const id = response.headers.get('x-request-id');
    expect(json).toEqual({
      id: `resp_${id}`,
      object: 'response',
      created_at: expect.any(Number),
      status: 'completed',
      error: null,
      incomplete_details: null,
      model: 'fake-model',
      instructions: 'Be short.',
      max_output_tokens: null,
      metadata: { a: 'b' },
      parallel_tool_calls: true,
      previous_response_id: null,
      reasoning: { effort: null, summary: null },
      store: false,
      temperature: 1,
      text: { format: { type: 'text' } },
      tool_choice: 'auto',
      tools: [],
      top_logprobs: 0,
      top_p: 1,
      truncation: 'disabled',
      background: false,
      output: [
        {
          id: `msg_${id}`,
          type: 'message',
          status: 'completed',
          role: 'assistant',
          content: [{ type: 'output_text', text: 'oneé🎉 two', annotations: [], logprobs: [] }],
        },
      ],
      usage: {
        input_tokens: expect.any(Number),
        input_tokens_details: { cached_tokens: 2 },
        output_tokens: 9,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: json.usage.input_tokens + 9,
      },
    });
  });

  it('is the same as a chat of the same messages', async () => {
    const app = testApp({ reply });
    const messages = [
      { role: 'system', content: 'Be short.' },
      { role: 'user', content: 'Hello' },
    ];
    const chat: Json = await (await app.chat({ messages })).json();
    const response: Json = await (
      await app.post('/v1/responses', { instructions: 'Be short.', input: 'Hello' })
    ).json();
    expect(response.output[0].content[0].text).toBe(chat.choices[0].message.content);
    const [one, two] = app.engine.requests;
    expect([...two!.prompt]).toEqual([...one!.prompt]);
    expect(two!.maxTokens).toBe(one!.maxTokens);
  });

  it('is incomplete where the tokens were not enough', async () => {
    const json: Json = await (await ask({ reply }, { max_output_tokens: 1 })).json();
    expect(json).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
    expect(json.output[0].status).toBe('incomplete');
  });

  it('takes items of every kind that is text', async () => {
    const app = testApp({ reply });
    const response = await app.post('/v1/responses', {
      input: [
        { role: 'developer', content: 'a' },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'b' }] },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'c', annotations: [] }] },
        { type: 'reasoning', id: 'r', summary: [] },
        { type: 'function_call', call_id: '1', name: 'f', arguments: '{}' },
        { type: 'function_call', call_id: '2', name: 'g', arguments: '{"x":1}' },
        { type: 'function_call_output', call_id: '1', output: 'done' },
      ],
      tools: [{ type: 'function', name: 'f', parameters: { type: 'object' }, strict: true }],
    });
    expect(response.status).toBe(200);
    expect(app.text.lastChat!.messages).toEqual([
      { role: 'developer', content: 'a' },
      { role: 'user', content: 'b' },
      { role: 'assistant', content: 'c' },
      {
        role: 'assistant',
        content: '',
        tool_calls: [
          { id: '1', type: 'function', function: { name: 'f', arguments: '{}' } },
          { id: '2', type: 'function', function: { name: 'g', arguments: '{"x":1}' } },
        ],
      },
      { role: 'tool', content: 'done', tool_call_id: '1' },
    ]);
    expect(app.text.lastChat!.tools).toEqual([
      { type: 'function', function: { name: 'f', parameters: { type: 'object' }, strict: true } },
    ]);
  });

  it.each([
    [{ input: undefined }, 'input'],
    [{ input: [] }, 'input'],
    [{ input: [{ role: 'banana', content: 'a' }] }, 'input[0].role'],
    [{ input: [{ content: 'a' }] }, 'input[0].role'],
    [{ input: [{ role: 'user' }] }, 'input[0].content'],
    [{ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] }, 'input[0].content[0].type'],
    [{ input: [{ type: 'item_reference', id: 'x' }] }, 'input[0].type'],
    [{ input: [{ type: 'function_call', call_id: 1, name: 'f', arguments: '' }] }, 'input[0].call_id'],
    [{ input: [{ type: 'function_call_output', call_id: '1' }] }, 'input[0].output'],
    [{ max_output_tokens: 0 }, 'max_output_tokens'],
    [{ temperature: -1 }, 'temperature'],
    [{ previous_response_id: 'resp_1' }, 'previous_response_id'],
    [{ conversation: 'c' }, 'conversation'],
    [{ background: true }, 'background'],
    [{ tools: [{ type: 'web_search' }] }, 'tools[0].type'],
    [{ tool_choice: 'required' }, 'tool_choice'],
    [{ text: { format: { type: 'json_object' } } }, 'text.format'],
    [{ truncation: 'sometimes' }, 'truncation'],
    [{ model: 'other' }, 'model'],
    [{ input: 'x'.repeat(300) }, 'input'],
  ])('refuses %j', async (body, param) => {
    for (const stream of [false, true]) {
      const response = await ask({}, { ...body, stream });
      const { error }: Json = await response.json();
      expect([response.status === 404 || response.status === 400, error.param]).toEqual([true, param]);
    }
  });

  it('with truncation auto keeps the end of what is too long', async () => {
    expect((await ask({}, { input: 'x'.repeat(300), truncation: 'auto' })).status).toBe(200);
  });
});

describe('a streamed response (case 82, llama.cpp#24957)', () => {
  it('has its events in order and numbered, each with its name', async () => {
    const list = await events(await ask({ reply }, { stream: true }));
    expect(list.map(({ event }) => event.replace('response.', ''))).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      ...Array(4).fill('output_text.delta'),
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'completed',
    ]);
    expect(list.map(({ data }) => data.sequence_number)).toEqual(list.map((_, i) => i));
    const deltas = list.filter(({ event }) => event === 'response.output_text.delta');
    expect(deltas.map(({ data }) => data.delta).join('')).toBe('oneé🎉 two');
    expect(list.find(({ event }) => event === 'response.output_text.done')!.data.text).toBe('oneé🎉 two');
    for (const { data } of list.filter(({ data: { response } }) => response)) {
      expect(data.response.output).not.toBeNull();
    }
  });

  it('ends with what the whole response is, for every way to end', async () => {
    for (const body of [
      {},
      { max_output_tokens: 3 },
      { stop: 'é' },
      { include: ['message.output_text.logprobs'], top_logprobs: 2 },
      { max_output_tokens: 4, include: ['message.output_text.logprobs'] },
    ]) {
      const app = testApp({ reply, tokensPerStep: 2 });
      const post = (more: object) =>
        app.post('/v1/responses', { input: 'Hello', ...body, ...more }, { headers: { 'X-Request-Id': 'same' } });
      const whole: Json = await (await post({})).json();
      const list = await events(await post({ stream: true }));
      const last = list.at(-1)!.data;
      expect({ ...last.response, created_at: 0 }).toEqual({ ...whole, created_at: 0 });
      const deltas = list.filter(({ event }) => event === 'response.output_text.delta').map(({ data }) => data);
      const [{ text, logprobs }] = whole.output[0].content;
      expect(deltas.map((data) => data.delta).join('')).toBe(text);
      expect(deltas.flatMap((data) => data.logprobs)).toEqual(logprobs);
      if ('include' in body) expect(logprobs.length).toBeGreaterThan(0);
    }
  });

  it('that fails says so with an event of its own', async () => {
    const list = await events(await ask({ reply, failAt: { step: 2, code: 'step_failed' } }, { stream: true }));
    const { event, data } = list.at(-1)!;
    expect(event).toBe('response.failed');
    expect(data.response).toMatchObject({
      status: 'failed',
      error: { code: 'step_failed', message: 'failed with step_failed' },
    });
    expect(data.sequence_number).toBe(list.length - 1);
  });
});

describe('the openai client', () => {
  let server: TestServer;
  let client: OpenAI;
  beforeAll(async () => {
    server = await testServer({ reply: () => [...reply(), end] });
    client = new OpenAI({ baseURL: `${server.server.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });
  afterAll(() => server.server.kill());

  it('creates a response', async () => {
    const response = await client.responses.create({ model: 'fake-model', input: 'Hello' });
    expect(response.output_text).toBe('oneé🎉 two');
    expect(response.status).toBe('completed');
  });

  it('puts a stream together by its own helper', async () => {
    const stream = client.responses.stream({ model: 'fake-model', input: [{ role: 'user', content: 'Hello' }] });
    let text = '';
    for await (const event of stream) if (event.type === 'response.output_text.delta') text += event.delta;
    const final = await stream.finalResponse();
    expect(text).toBe('oneé🎉 two');
    expect(final.output_text).toBe(text);
    expect(final.usage?.output_tokens).toBe(9);
  });
});
