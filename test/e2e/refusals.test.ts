/** What a server refuses, through a socket: in OpenAI's shape, naming the field, and without harm to who else it serves. */
import { once } from 'node:events';
import net from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { childServer, fixtureModel } from '../support/child-server.js';
import { type Json, streamed } from '../support/server.js';

const server = childServer(['--model', fixtureModel('tiny-llama'), '--precision', 'fp32', '--kv-cache-memory', '8MiB']);
const vocabulary = 512;
const context = 1024;

/** The texts of a long stream's four choices. */
async function stream(): Promise<string[]> {
  const body = { prompt: [5, 6, 7], max_tokens: 900, ignore_eos: true, stream: true, n: 4, seed: 3 };
  const texts = ['', '', '', ''];
  for (const chunk of await streamed(await server.post('/v1/completions', body))) {
    for (const { index, text } of chunk.choices) texts[index] += text;
  }
  return texts;
}

/** Runs through all of this file; what is refused must not disturb it. */
let bystander: Promise<string[]>;
beforeAll(() => {
  bystander = stream();
});
afterAll(async () => {
  const undisturbed = await bystander;
  expect(await stream()).toEqual(undisturbed);
  expect(await server.idle()).toMatchObject({ blocks_used: 0 });
});

const chat = '"messages":[{"role":"user","content":"Hi"}]';

/** Path, JSON as it is sent, the field that must be named. */
const invalid: [path: string, body: string, param: string | null][] = [
  ['completions', '{"prompt":5}', 'prompt'],
  ['completions', '{"prompt":{}}', 'prompt'],
  ['completions', '{"prompt":null}', 'prompt'],
  ['completions', '{}', 'prompt'],
  ['completions', '{"prompt":"x","max_tokens":"10"}', 'max_tokens'],
  ['completions', '{"prompt":"x","stop":[1]}', 'stop[0]'],
  ['completions', '{"prompt":"x","stream":"yes"}', 'stream'],
  ['completions', '{"prompt":"x","temperature":-1}', 'temperature'],
  ['completions', '{"prompt":"x","temperature":1e999}', 'temperature'],
  ['completions', '{"prompt":"x","top_p":-1}', 'top_p'],
  ['completions', '{"prompt":"x","repetition_penalty":0}', 'repetition_penalty'],
  ['completions', '{"prompt":"x","n":5000000}', 'n'],
  ['completions', '{"prompt":"x","logprobs":1000000000}', 'logprobs'],
  ['completions', '{"prompt":"x","model":7}', 'model'],
  ['completions', `{"prompt":[1,2,${vocabulary}]}`, 'prompt'],
  ['completions', '{"prompt":[[1],[2,999999999]]}', 'prompt[1]'],
  ['completions', '{"prompt":[1,-1]}', 'prompt'],
  ['completions', '{"prompt":[1.5]}', 'prompt'],
  ['completions', `{"prompt":"x","stop_token_ids":[${vocabulary}]}`, 'stop_token_ids[0]'],
  ['chat/completions', '{"messages":[]}', 'messages'],
  ['chat/completions', '{"messages":"Hi"}', 'messages'],
  ['chat/completions', '{"messages":[{"role":"banana","content":"Hi"}]}', 'messages[0].role'],
  ['chat/completions', '{"messages":[{"role":"user","content":7}]}', 'messages[0].content'],
  ['chat/completions', `{${chat},"temperature":-1}`, 'temperature'],
  ['chat/completions', `{${chat},"temperature":1e999}`, 'temperature'],
  ['chat/completions', `{${chat},"logprobs":true,"top_logprobs":1000000000}`, 'top_logprobs'],
  ['chat/completions', '{}', 'messages'],
  ['completions', '[]', null],
  ['completions', '"prompt"', null],
  ['completions', 'prompt=x', null],
  ['completions', '{"prompt":"x"', null],
  ['completions', '', null],
  ['completions', '{"prompt":"\ud800"', null],
];

async function expectError(response: Response, status: number, param: string | null): Promise<Json> {
  expect(response.status).toBe(status);
  expect(response.headers.get('content-type')).toMatch(/^application\/json/);
  const { error, ...rest }: Json = await response.json();
  expect(rest).toEqual({});
  expect(Object.keys(error).sort()).toEqual(['code', 'message', 'param', 'type']);
  expect(error.message).toMatch(/\S/);
  expect(error.param).toBe(param);
  return error;
}

describe('requests that are wrong (case 46, Rapid-MLX#740, llama.cpp#19367)', () => {
  const times: number[] = [];

  it.each(invalid)('%s %s', async (path, body, param) => {
    const start = performance.now();
    const error = await expectError(await server.post(`/v1/${path}`, body), 400, param);
    times.push(performance.now() - start);
    expect(error.type).toBe('invalid_request_error');
  });

  it('are answered in less than 100 ms', () => {
    expect(times).toHaveLength(invalid.length);
    // The slowest may have met a busy machine.
    expect(times.toSorted((a, b) => a - b)[Math.floor(0.9 * times.length)]).toBeLessThan(100);
  });
});

describe('prompts longer than the context', () => {
  const ids = Array(context).fill(7);
  const message = { role: 'user', content: 'word '.repeat(context) };

  it.each([false, true])('have no stream opened for them (stream %s)', async (stream) => {
    const completion = await server.post('/v1/completions', { prompt: ids, stream });
    expect((await expectError(completion, 400, 'prompt')).code).toBe('context_length_exceeded');
    const answer = await server.post('/v1/chat/completions', { messages: [message], stream });
    expect((await expectError(answer, 400, 'messages')).code).toBe('context_length_exceeded');
  });

  it('begin at its very length', async () => {
    const whole = await server.completion({ prompt: ids.slice(1), max_tokens: 5, ignore_eos: true });
    expect(whole.usage).toMatchObject({ prompt_tokens: context - 1, completion_tokens: 1 });
    expect(whole.choices[0].finish_reason).toBe('length');
  });
});

describe('other refusals', () => {
  it('an unknown model is 404', async () => {
    for (const path of ['completions', 'chat/completions']) {
      const body = `{"model":"gpt-4","prompt":"x",${chat}}`;
      expect((await expectError(await server.post(`/v1/${path}`, body), 404, 'model')).code).toBe('model_not_found');
    }
    expect((await fetch(`${server.url}/v1/models/gpt-4`)).status).toBe(404);
  });

  it('an unknown path is 404, an unknown method 405', async () => {
    await expectError(await server.post('/v1/unknown', {}), 404, null);
    await expectError(await fetch(`${server.url}/v1/completions`), 405, null);
  });

  it('a body beyond 10 MiB is 413, one just below it is read', async () => {
    const body = (length: number) => `{"prompt":[5],"max_tokens":1,"user":"${'x'.repeat(length)}"}`;
    // Again and again: a client that still sends must not lose the answer to a reset.
    for (let i = 0; i < 10; i++) {
      await expectError(await server.post('/v1/completions', body((10 + i) * 2 ** 20)), 413, null);
    }
    const padded = `{"prompt":[5],"max_tokens":1}${' '.repeat(10 * 2 ** 20 - 29)}`;
    expect(padded).toHaveLength(10 * 2 ** 20);
    expect((await server.post('/v1/completions', padded)).status).toBe(200);
  });
});

describe('connections that are no clients', () => {
  /** What comes back for raw bytes until the server closes; throws if it resets the connection. */
  async function send(bytes: string | Buffer): Promise<string> {
    const socket = net.connect(Number(new URL(server.url).port), '127.0.0.1');
    socket.write(bytes);
    let text = '';
    socket.on('data', (data) => {
      text += data.toString('latin1');
    });
    await once(socket, 'close');
    return text;
  }

  it.each([
    ['bytes of TLS', Buffer.from('16030100a5010000a10303', 'hex')],
    ['no HTTP', 'EHLO mail.example\r\n\r\n'],
    ['a header without end', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(100_000)}`],
    ['a header of megabytes', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(8 * 2 ** 20)}`],
    ['two lengths', 'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}'],
    [
      'a length and chunks',
      'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
  ])('%s', async (_, bytes) => {
    expect(await send(bytes)).toMatch(/^HTTP\/1\.1 4\d\d /);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  });

  it('send on without end', async () => {
    const socket = net.connect(Number(new URL(server.url).port), '127.0.0.1');
    const sending = setInterval(() => socket.write('y'.repeat(10_000)), 10);
    // The answer ends the server's side; the other side is not read for ever.
    socket.write('EHLO mail.example\r\n');
    socket.resume();
    socket.on('error', () => {});
    const start = performance.now();
    await new Promise((resolve) => socket.once('close', resolve));
    clearInterval(sending);
    expect(performance.now() - start).toBeLessThan(5000);
  });

  it('are many and silent', async () => {
    const sockets = Array.from({ length: 200 }, () => net.connect(Number(new URL(server.url).port), '127.0.0.1'));
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    for (const socket of sockets)
      socket.write('POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{');
    const answer = await server.completion({ prompt: [5], max_tokens: 2, ignore_eos: true });
    expect(answer.usage.completion_tokens).toBe(2);
    for (const socket of sockets) socket.destroy();
  });
});
