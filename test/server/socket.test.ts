/** What only a real connection shows: bytes on the wire, clients that leave, slow readers, shutdown. */
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { createParser } from 'eventsource-parser';
import { afterEach, describe, expect, it } from 'vitest';
import { startServer } from '../../src/server/listen.js';
import { byteTokens, longWord, word } from '../support/fake-text.js';
import {
  eventData,
  type Json,
  type TestServer,
  type TestSetup,
  testParts,
  testServer,
  until,
} from '../support/server.js';

const servers: TestServer[] = [];
async function start(setup: TestSetup): Promise<TestServer> {
  const server = await testServer(setup);
  servers.push(server);
  return server;
}
afterEach(async () => {
  await Promise.all(servers.splice(0).map(({ server }) => server.kill()));
});

const oneTwo = [word('one'), word(' two'), word(' three')];
const endless = (): number[] => Array(250).fill(word(' one'));

/** Resolves after some milliseconds. */
const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

function post({ server }: TestServer, path: string, body: object, init: RequestInit = {}): Promise<Response> {
  return fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    ...init,
  });
}

/** Sends a request as raw bytes and gives the socket. */
async function rawPost({ server }: TestServer, path: string, body: object, headers = ''): Promise<net.Socket> {
  const socket = net.connect(server.port, '127.0.0.1');
  await once(socket, 'connect');
  // Connections that the server drops are part of these tests.
  socket.on('error', () => {});
  const json = JSON.stringify(body);
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: x\r\n${headers}Content-Length: ${Buffer.byteLength(json)}\r\n\r\n${json}`,
  );
  return socket;
}

describe('a stream on a socket', () => {
  it('has the headers and framing of an event stream', async () => {
    const server = await start({ reply: () => oneTwo });
    const response = await post(server, '/v1/completions', { prompt: 'Hello', stream: true });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    expect(response.headers.get('cache-control')).toBe('no-cache, no-transform');
    expect(response.headers.get('x-accel-buffering')).toBe('no');
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
    expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
    const data = eventData(await response.text());
    expect(data.slice(0, -1).map((json) => JSON.parse(json).choices[0].text)).toEqual(['one', ' two', ' three', '']);
    expect(data.at(-1)).toBe('[DONE]');
  });

  it('keeps its connection for the next request', async () => {
    const server = await start({ reply: () => oneTwo });
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const ports = new Set<number | undefined>();
    for (let i = 0; i < 3; i++) {
      const request = http.request(`${server.server.url}/v1/completions`, { agent, method: 'POST' });
      request.end(JSON.stringify({ prompt: 'Hello', stream: true }));
      const [response] = (await once(request, 'response')) as [http.IncomingMessage];
      ports.add(response.socket.localPort);
      for await (const _ of response);
      await pause(5);
    }
    expect(ports.size).toBe(1);
    agent.destroy();
  });

  it('finds its connection open that was idle for longer than Node’s five seconds (case 75, node#20256)', async () => {
    const server = await start({ reply: () => oneTwo });
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const ports: (number | undefined)[] = [];
    for (const wait of [6500, 0]) {
      const request = http.request(`${server.server.url}/v1/completions`, { agent, method: 'POST' });
      request.end(JSON.stringify({ prompt: 'Hello', stream: true }));
      const [response] = (await once(request, 'response')) as [http.IncomingMessage];
      ports.push(response.socket.localPort);
      let text = '';
      for await (const chunk of response) text += chunk;
      expect(text).toContain('[DONE]');
      await pause(wait);
    }
    expect(ports[0]).toBe(ports[1]);
    agent.destroy();
  });

  it('is never compressed and comes as it is generated (case 40, project-nomad#798)', async () => {
    const gates: (() => void)[] = [];
    const server = await start({
      reply: () => oneTwo,
      beforeStep: () => new Promise<void>((resolve) => gates.push(resolve)),
    });
    const pending = post(
      server,
      '/v1/completions',
      { prompt: 'Hello', stream: true },
      {
        headers: { 'Accept-Encoding': 'zstd, br, gzip' },
      },
    );
    let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
    for (let step = 0; step < 3; step++) {
      await until(() => gates.length > step, 'the step waits');
      gates[step]!();
      if (reader === undefined) {
        const response = await pending;
        expect(response.headers.get('content-encoding')).toBeNull();
        expect(response.headers.get('cache-control')).toContain('no-transform');
        expect(response.headers.get('x-accel-buffering')).toBe('no');
        reader = response.body!.getReader();
      }
      const { value } = await reader.read();
      expect(new TextDecoder().decode(value).match(/data: /g)).toHaveLength(1);
    }
    await reader!.cancel();
  });

  it('serves HTTP/1.0 clients, which know no chunks', async () => {
    const server = await start({ reply: () => oneTwo });
    const socket = net.connect(server.server.port, '127.0.0.1');
    const body = JSON.stringify({ prompt: 'Hello', stream: true });
    socket.write(`POST /v1/completions HTTP/1.0\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    let text = '';
    for await (const chunk of socket) text += chunk;
    expect(eventData(text.slice(text.indexOf('\r\n\r\n') + 4)).at(-1)).toBe('[DONE]');
  });
});

describe('a stream whose first token takes long', () => {
  it('opens after a while, and can be kept alive with comments (case 28, llama.cpp#25241)', async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const server = await start({
      reply: () => oneTwo,
      beforeStep: () => gate,
      config: { headerDelay: 0.02, keepAliveInterval: 0.02 },
    });
    const response = await post(server, '/v1/completions', { prompt: 'Hello', stream: true });
    expect(response.status).toBe(200);
    const reader = response.body!.getReader();
    const { value } = await reader.read();
    expect(new TextDecoder().decode(value)).toBe(': keep-alive\n\n');
    release();
    let text = '';
    for (;;) {
      const { done, value: more } = await reader.read();
      if (done) break;
      text += new TextDecoder().decode(more);
    }
    expect(eventData(text.replaceAll(': keep-alive\n\n', '')).at(-1)).toBe('[DONE]');
  });

  it('fails with an event once it is open', async () => {
    const server = await start({
      beforeStep: () => pause(60),
      failAt: { step: 0, code: 'queue_full' },
      config: { headerDelay: 0.02 },
    });
    const response = await post(server, '/v1/completions', { prompt: 'Hello', stream: true });
    expect(response.status).toBe(200);
    const [error, done] = eventData(await response.text());
    expect(JSON.parse(error!)).toMatchObject({ error: { code: 'queue_full', type: 'rate_limit_error' } });
    expect(done).toBe('[DONE]');
  });
});

describe('a stream read by eventsource-parser', () => {
  it('is the whole answer, wherever its bytes are cut', async () => {
    const answer = 'Ā̈ é 👩‍👩‍👧 東京\u2028\u2029\r\n\ndata: x\u0000 ﷽';
    const server = await start({ reply: () => byteTokens(answer) });
    const body = { prompt: 'Hello', max_tokens: 200, logprobs: 1 };
    const whole = (await (await post(server, '/v1/completions', body)).json()) as Json;
    expect(whole.choices[0].text).toBe(answer);
    const response = await post(server, '/v1/completions', { ...body, stream: true });
    const bytes = new Uint8Array(await response.arrayBuffer());
    for (const size of [1, 2, 3, 7, 64, 1000]) {
      let text = '';
      let done = 0;
      const parser = createParser({
        onEvent: ({ data }) => {
          if (data === '[DONE]') done++;
          else text += JSON.parse(data).choices[0].text;
        },
        onError: (error) => {
          throw error;
        },
      });
      const decoder = new TextDecoder();
      for (let at = 0; at < bytes.length; at += size) {
        parser.feed(decoder.decode(bytes.subarray(at, at + size), { stream: true }));
      }
      expect([text, done]).toEqual([answer, 1]);
    }
  });
});

describe('a client that goes away', () => {
  const cases: [string, object, number][] = [
    ['streamed, while running', { stream: true }, 5],
    ['whole, while running (case 9, ROCm/ATOM#1441)', {}, 5],
    ['streamed, with two choices and prompts', { stream: true, n: 2, prompt: ['Hello', ' one'] }, 5],
    ['streamed, while queued (case 7, llama.cpp#24496)', { stream: true }, 0],
    ['whole, while queued', {}, 0],
  ];

  it.each(cases)('%s, ends its sequences', async (_, body, steps) => {
    const server = await start({
      reply: endless,
      beforeStep: (step) => (step < steps ? pause(1) : new Promise<void>(() => {})),
    });
    const socket = await rawPost(server, '/v1/completions', { prompt: 'Hello', max_tokens: 200, ...body });
    await until(() => server.engine.running > 0 && server.engine.steps >= steps, 'the engine works');
    socket.destroy();
    await until(() => server.engine.running === 0, 'the engine has nothing to do');
    expect(server.engine.aborted).toBe(server.engine.requests.length);
    await until(() => server.records.length === 1, 'the request is over');
    expect(server.records[0]).toMatchObject({ status: 499, finish: 'abort' });
  });

  it('while it sends its request, is no fault of the server', async () => {
    const server = await start({});
    const socket = net.connect(server.server.port, '127.0.0.1');
    socket.write('POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"prompt":');
    await pause(20);
    socket.destroy();
    await until(() => server.records.length === 1, 'the request is over');
    expect(server.records[0]).toMatchObject({ status: 499 });
    expect(server.records[0]).not.toHaveProperty('cause');
  });

  it('before a pipelined request of its own was answered, ends that, too', async () => {
    const server = await start({ reply: endless, beforeStep: () => new Promise<void>(() => {}) });
    const socket = await rawPost(server, '/v1/completions', { prompt: 'Hello', stream: true });
    const second = JSON.stringify({ prompt: ' one' });
    socket.write(`POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: ${second.length}\r\n\r\n${second}`);
    await until(() => server.engine.running === 2, 'both run');
    socket.destroy();
    await until(() => server.engine.running === 0, 'the engine has nothing to do');
    expect(server.engine.aborted).toBe(2);
  });

  it('two hundred times leaves nothing behind (cases 7 and 10)', async () => {
    const rejections: unknown[] = [];
    const onRejection = (reason: unknown) => rejections.push(reason);
    process.on('unhandledRejection', onRejection);
    const server = await start({ reply: endless, beforeStep: () => pause(20) });
    const sockets = await Promise.all(
      Array.from({ length: 200 }, (_, i) =>
        rawPost(server, '/v1/completions', { prompt: 'Hello', max_tokens: 200, stream: i % 2 === 0 }),
      ),
    );
    await until(() => server.engine.requests.length === 200, 'all run');
    for (const [i, socket] of sockets.entries()) setTimeout(() => socket.destroy(), i % 20);
    await until(() => server.engine.running === 0, 'the engine has nothing to do');
    await until(() => server.records.length === 200, 'every request is over');
    await pause(20);
    process.off('unhandledRejection', onRejection);
    expect(rejections).toEqual([]);
    expect(server.engine.aborted).toBe(200);
  });
});

describe('a slow reader', () => {
  /** An answer of 60 MB: the system alone may buffer more than 30 of a connection. */
  const long = () => Array(10_000).fill(word(longWord));
  const body = { prompt: 'Hello', max_tokens: 10_000, stream: true };
  const setup = { reply: long, maxModelLen: 10_002 };

  it('is waited for with bounded memory, and gets everything (case 29, anything-llm#6202)', async () => {
    const server = await start(setup);
    const socket = await rawPost(server, '/v1/completions', body, 'Connection: close\r\n');
    socket.pause();
    let steps = -1;
    while (steps !== server.engine.steps) {
      steps = server.engine.steps;
      await pause(50);
    }
    expect(server.engine.running).toBe(1);
    expect(steps).toBeLessThan(9_000);
    let length = 0;
    let end = '';
    for await (const chunk of socket) {
      length += chunk.length;
      end = (end + chunk.toString('latin1')).slice(-100);
    }
    expect(length).toBeGreaterThan(10_000 * longWord.length);
    expect(end).toContain('data: [DONE]');
    expect(server.engine.aborted).toBe(0);
  });

  it('that stalls for too long is dropped', async () => {
    const server = await start({ ...setup, config: { stallTimeout: 0.1 } });
    const socket = await rawPost(server, '/v1/completions', body);
    socket.pause();
    await until(() => server.engine.aborted === 1, 'the request is aborted');
    await until(() => server.records.length === 1, 'the request is over');
    expect(server.records[0]).toMatchObject({ status: 499, error: 'The reader stalled.' });
    socket.destroy();
  });
});

describe('requests that are none', () => {
  it('are refused in the shape of errors where they can be answered at all', async () => {
    const server = await start({});
    const ask = async (head: string): Promise<string> => {
      const socket = net.connect(server.server.port, '127.0.0.1');
      socket.end(head);
      let text = '';
      for await (const chunk of socket) text += chunk;
      return text;
    };
    const noHost = await ask('GET /health HTTP/1.0\r\n\r\n');
    expect(noHost).toMatch(/^HTTP\/1.1 400 /);
    expect(noHost).toContain('"type":"invalid_request_error"');
    const badHost = await ask('GET /health HTTP/1.1\r\nHost: a b\r\n\r\n');
    expect(badHost).toMatch(/^HTTP\/1.1 400 /);
    for (const [head, status] of [
      ['nonsense\r\n\r\n', 400],
      ['GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n', 400],
      ['POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n', 400],
      [`GET /health HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
    ] as const) {
      const answer = await ask(head);
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      const [, json] = answer.split('\r\n\r\n');
      expect(JSON.parse(json!)).toMatchObject({ error: { type: 'invalid_request_error', code: expect.any(String) } });
    }
    expect((await fetch(`${server.server.url}/health`)).status).toBe(200);
  });
});

describe('connections', () => {
  it('beyond the limit are closed, and free it as they go', async () => {
    const parts = testParts();
    const limited = await startServer(() => parts.deps, { host: '127.0.0.1', port: 0, maxConnections: 2 });
    const open = async () => {
      const socket = net.connect(limited.port, '127.0.0.1').on('error', () => {});
      await once(socket, 'connect');
      return socket;
    };
    const [one, two] = [await open(), await open()];
    await expect(fetch(`${limited.url}/health`)).rejects.toThrow();
    one.destroy();
    two.destroy();
    let status = 0;
    for (let attempt = 0; attempt < 100 && status !== 200; attempt++) {
      await pause(10);
      status = await fetch(`${limited.url}/health`).then(
        (response) => response.status,
        () => 0,
      );
    }
    expect(status).toBe(200);
    await limited.kill();
  });

  it('with an answer under way are not written into by what follows it', async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const server = await start({ reply: () => oneTwo, beforeStep: (step) => (step > 0 ? gate : undefined) });
    const socket = await rawPost(server, '/v1/completions', { prompt: 'Hello', stream: true });
    await once(socket, 'data');
    let rest = '';
    socket.on('data', (chunk) => {
      rest += chunk;
    });
    socket.write('nonsense\r\n\r\n');
    await once(socket, 'close');
    expect(rest).not.toContain('HTTP/1.1');
    release();
    await until(() => server.engine.running === 0, 'the generation is over');
  });
});

describe('bodies', () => {
  it('beyond the limit are refused without being read (case 30, LightRAG#3544)', async () => {
    const server = await start({});
    const request = http.request(`${server.server.url}/v1/completions`, {
      method: 'POST',
      headers: { 'Content-Length': 64 * 1024 * 1024 },
    });
    request.on('error', () => {});
    request.flushHeaders();
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    expect(response.statusCode).toBe(413);
    let text = '';
    for await (const chunk of response) text += chunk;
    expect(JSON.parse(text)).toMatchObject({ error: { code: 'request_too_large' } });
  });

  it('beyond the limit are refused while they are being sent', async () => {
    const server = await start({});
    const body = Buffer.alloc(64 * 1024 * 1024, 0x20);
    const response = await fetch(`${server.server.url}/v1/completions`, { method: 'POST', body });
    expect(response.status).toBe(413);
  });

  it('beyond the limit are refused in chunks of unknown length, too', async () => {
    const server = await start({ config: { maxBodyBytes: 1000 } });
    const request = http.request(`${server.server.url}/v1/completions`, { method: 'POST' });
    request.on('error', () => {});
    request.write('x'.repeat(600));
    request.write('x'.repeat(600));
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    expect(response.statusCode).toBe(413);
    request.destroy();
  });

  it('within the limit are read in chunks, cut anywhere', async () => {
    const server = await start({ reply: () => byteTokens('ok') });
    const request = http.request(`${server.server.url}/v1/completions`, { method: 'POST' });
    const body = Buffer.from(JSON.stringify({ prompt: 'größer 🎉' }));
    for (const byte of body) request.write(Buffer.of(byte));
    request.end();
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    expect(response.statusCode).toBe(200);
    response.resume();
    expect([...server.engine.requests[0]!.prompt]).toEqual(byteTokens('größer 🎉'));
  });
});

describe('shutdown', () => {
  it('closes idle connections at once (case 75, node#20256)', async () => {
    const server = await start({ reply: () => oneTwo });
    const agent = new http.Agent({ keepAlive: true });
    const request = http.get(`${server.server.url}/health`, { agent });
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    expect(response.headers['keep-alive']).toBe('timeout=75');
    response.resume();
    await once(response, 'end');
    const before = performance.now();
    await server.server.stop(30);
    expect(performance.now() - before).toBeLessThan(1000);
    expect(server.engine.closed).toBe(1);
    agent.destroy();
  });

  it('is not held up by connections that never sent a whole request (case 75, derive#124)', async () => {
    const server = await start({ reply: () => oneTwo });
    const silent = net.connect(server.server.port, '127.0.0.1');
    const begun = net.connect(server.server.port, '127.0.0.1');
    await Promise.all([once(silent, 'connect'), once(begun, 'connect')]);
    begun.write('POST /v1/completions HTTP/1.1\r\nHost: x\r\n');
    await pause(20);
    const before = performance.now();
    await Promise.all([server.server.stop(30), once(silent, 'close'), once(begun, 'close')]);
    expect(performance.now() - before).toBeLessThan(2000);
  });

  it('drains a running stream and refuses what comes meanwhile (case 32, dynamo#791)', async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const server = await start({ reply: () => oneTwo, beforeStep: (step) => (step > 0 ? gate : undefined) });
    const socket = await rawPost(server, '/v1/completions', { prompt: 'Hello', stream: true });
    await once(socket, 'data');
    const stopped = server.server.stop(30);
    socket.write('POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n{"prompt":"Hello"}');
    await expect(fetch(`${server.server.url}/health`)).rejects.toThrow();
    release();
    let text = '';
    for await (const chunk of socket) text += chunk;
    await stopped;
    const [stream, refusal] = text.split('HTTP/1.1 503');
    expect(stream).toContain('data: [DONE]');
    expect(refusal!.toLowerCase()).toContain('retry-after: ');
    expect(refusal!.toLowerCase()).toContain('connection: close');
    expect(refusal).toContain('server_draining');
    expect(server.engine.aborted).toBe(0);
    expect(server.engine.requests).toHaveLength(1);
  });

  it('ends streams with an error once the time is over', async () => {
    const server = await start({
      reply: endless,
      beforeStep: (step) => (step > 3 ? new Promise<void>(() => {}) : undefined),
    });
    const stream = await post(server, '/v1/completions', { prompt: 'Hello', stream: true, max_tokens: 100 });
    const text = stream.text();
    await server.server.stop(0.1);
    const data = eventData(await text);
    expect(data.at(-1)).toBe('[DONE]');
    expect(JSON.parse(data.at(-2)!)).toMatchObject({ error: { code: 'engine_closed', type: 'service_unavailable' } });
  });

  it('can be hurried', async () => {
    const server = await start({ reply: endless, beforeStep: () => new Promise<void>(() => {}) });
    await rawPost(server, '/v1/completions', { prompt: 'Hello' });
    await until(() => server.engine.running === 1, 'the request runs');
    const stopped = server.server.stop(30);
    await server.server.kill();
    await stopped;
    expect(server.engine.running).toBe(0);
  });

  it('names a port that is taken', async () => {
    const server = await start({});
    let made = false;
    const second = startServer(
      () => {
        made = true;
        return server.deps;
      },
      { host: '127.0.0.1', port: server.server.port },
    );
    await expect(second).rejects.toThrow(`Port ${server.server.port} on 127.0.0.1 is in use.`);
    expect(made).toBe(false);
  });
});
