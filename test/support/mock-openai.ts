/**
 * A scripted OpenAI-compatible server: it answers each request with given bytes after given delays, and notes on
 * performance.now() when it received the request and when it wrote each piece.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

export interface MockStep {
  /** Milliseconds after the step before, or after the request was received. */
  readonly delay?: number;
  readonly bytes: string | Uint8Array;
}

export interface MockAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly steps: readonly MockStep[];
  /** `clean` ends the body, `reset` destroys the connection, `hang` leaves it open; default clean. */
  readonly end?: 'clean' | 'reset' | 'hang';
}

export interface MockRequest {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  // biome-ignore lint/suspicious/noExplicitAny: a body of the test's own making
  readonly body: any;
  readonly receivedAt: number;
  /** performance.now() just before each step's bytes were written. */
  readonly writtenAt: number[];
  /** Whether the client went away before the answer ended. */
  aborted: boolean;
}

/** An answer, or `drop` to destroy the connection without one. */
export type MockScript = (request: MockRequest, index: number) => MockAnswer | 'drop';

export interface MockServer {
  readonly url: string;
  /** Every POST so far, in order of arrival. */
  readonly requests: MockRequest[];
  readonly connections: () => number;
  close(): Promise<void>;
}

export async function startMock(script: MockScript, model = 'mock-model'): Promise<MockServer> {
  const requests: MockRequest[] = [];
  let connections = 0;
  const server = createServer(async (incoming, response) => {
    const receivedAt = performance.now();
    if (incoming.method === 'GET') {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ object: 'list', data: [{ id: model, object: 'model', root: model }] }));
      return;
    }
    let text = '';
    for await (const piece of incoming) text += piece;
    const request: MockRequest = {
      path: incoming.url ?? '',
      headers: incoming.headers,
      body: JSON.parse(text),
      receivedAt,
      writtenAt: [],
      aborted: false,
    };
    requests.push(request);
    response.on('close', () => {
      request.aborted = !response.writableFinished;
    });
    const answer = script(request, requests.length - 1);
    if (answer === 'drop') incoming.socket.destroy();
    else await play(answer, request, response);
  });
  server.on('connection', () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    connections: () => connections,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function play(answer: MockAnswer, request: MockRequest, response: ServerResponse): Promise<void> {
  response.socket?.setNoDelay(true);
  response.writeHead(answer.status ?? 200, { 'content-type': 'text/event-stream; charset=utf-8', ...answer.headers });
  response.flushHeaders();
  for (const { delay = 0, bytes } of answer.steps) {
    if (delay > 0) await sleep(delay);
    request.writtenAt.push(performance.now());
    // The next step waits until these bytes are with the kernel, so that no two steps share a packet.
    await new Promise((resolve) => response.write(bytes, resolve));
  }
  if (answer.end === 'reset') response.socket?.destroy();
  else if (answer.end !== 'hang') response.end();
}

/** How an event is put on the wire. */
export interface Framing {
  readonly name: string;
  /** The event whose data is `data`, up to and with the blank line that ends it. */
  readonly frame: (data: string) => string;
}

/** JSON over several data lines: a line break is put between tokens of the JSON, where it is white space. */
const asLines = (data: string): string[] => data.replaceAll(',"', ',\n"').split('\n');

export const FRAMINGS: readonly Framing[] = [
  { name: 'LF', frame: (data) => `data: ${data}\n\n` },
  { name: 'LF without the space', frame: (data) => `data:${data}\n\n` },
  { name: 'CRLF', frame: (data) => `data: ${data}\r\n\r\n` },
  { name: 'CR', frame: (data) => `data: ${data}\r\r` },
  { name: 'mixed LF and CRLF', frame: (data) => `data: ${data}\n\r\n` },
  { name: 'mixed CRLF and CR', frame: (data) => `data: ${data}\r\n\r` },
  {
    name: 'comments and other fields',
    frame: (data) => `: ping\n\nid: 7\nevent: message\nretry: 10\ndata: ${data}\n: pong\n\n`,
  },
  {
    name: 'several data lines, LF',
    frame: (data) =>
      `${asLines(data)
        .map((line) => `data: ${line}\n`)
        .join('')}\n`,
  },
  {
    name: 'several data lines, CRLF',
    frame: (data) =>
      `${asLines(data)
        .map((line) => `data: ${line}\r\n`)
        .join('')}\r\n`,
  },
];

/** One chunk of a completion's stream; `usage` counts completion tokens from the start. */
export function completionChunk(text: string, extra: { finish?: string; usage?: number } = {}): string {
  return JSON.stringify({
    id: 'cmpl-1',
    object: 'text_completion',
    choices: [{ index: 0, text, finish_reason: extra.finish ?? null }],
    ...(extra.usage === undefined ? {} : { usage: { prompt_tokens: 5, completion_tokens: extra.usage } }),
  });
}

/** The chunk without a choice that ends a stream with include_usage. */
export function usageChunk(completionTokens: number, cachedTokens = 0): string {
  const usage = {
    prompt_tokens: 5,
    completion_tokens: completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
  return JSON.stringify({ id: 'cmpl-1', object: 'text_completion', choices: [], usage });
}

export const DONE = '[DONE]';
