/** Sends one streamed request over `node:http` and follows the answer to its end. */
import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { TLSSocket } from 'node:tls';
import type { Failure } from './failure.js';
import { errorMessage, isObject } from './openai-chunk.js';
import { StreamRecorder, type StreamTimeline } from './stream.js';
import type { Target } from './target.js';
import type { Milliseconds } from './units.js';

export interface PreparedRequest {
  /** Below the base URL, as in `/completions`. */
  readonly path: string;
  readonly body: Buffer;
}

export interface ExchangeOptions {
  readonly agent: http.Agent;
  /** For the whole request, from sending it to the end of the answer. */
  readonly timeout: Milliseconds;
  /** Gives the request up: its result is then `cancelled`. */
  readonly signal?: AbortSignal;
}

/** Times are performance.now(). */
export interface Exchange {
  readonly sentAt: Milliseconds;
  readonly endAt: Milliseconds;
  /** Time to open the connection; 0 on one that was open. */
  readonly connect: Milliseconds;
  readonly outcome: 'completed' | 'failed' | 'cancelled';
  readonly timeline?: StreamTimeline;
  readonly failure?: Failure;
}

/** Bytes kept of an answer that reports an error. */
const ERROR_BODY_LIMIT = 1 << 16;
/** How long a server may leave the body open after `[DONE]`; the connection is given up then, the request has succeeded. */
const DONE_GRACE_MS = 1000;

/** Never rejects: whatever goes wrong on the way is an outcome. */
export function exchange(target: Target, request: PreparedRequest, options: ExchangeOptions): Promise<Exchange> {
  return new Promise((resolve) => new RunningExchange(target, request, options, resolve));
}

class RunningExchange {
  readonly #options: ExchangeOptions;
  readonly #resolve: (result: Exchange) => void;
  readonly #recorder = new StreamRecorder();
  readonly #request: http.ClientRequest;
  readonly #sentAt: Milliseconds;
  readonly #timeout: NodeJS.Timeout;
  #grace: NodeJS.Timeout | undefined;
  #socket: Socket | undefined;
  #arrival: Milliseconds = 0;
  #connect: Milliseconds = 0;
  #finished = false;

  constructor(
    target: Target,
    { path, body }: PreparedRequest,
    options: ExchangeOptions,
    resolve: (result: Exchange) => void,
  ) {
    this.#options = options;
    this.#resolve = resolve;
    const url = new URL(target.baseUrl + path);
    this.#request = (url.protocol === 'https:' ? https : http).request(url, {
      method: 'POST',
      agent: options.agent,
      headers: { accept: 'text/event-stream', ...target.headers, 'content-length': body.length },
    });
    this.#request.on('socket', (socket) => this.#watch(socket));
    this.#request.on('response', (response) => this.#receive(response));
    this.#request.on('error', (error) => {
      const code = 'code' in error ? String(error.code) : '';
      this.#fail({ kind: 'connection', message: error.message || code });
    });
    this.#timeout = setTimeout(() => {
      this.#fail({ kind: 'timeout', message: `not complete after ${options.timeout} ms` });
      this.#request.destroy();
    }, options.timeout);
    options.signal?.addEventListener('abort', this.#onAbort, { once: true });
    this.#sentAt = performance.now();
    this.#request.end(body);
  }

  /** The listener stands before the HTTP parser's own, so a packet's time is taken before any of it is parsed. */
  #watch(socket: Socket): void {
    this.#socket = socket;
    socket.prependListener('data', this.#onData);
    if (this.#request.reusedSocket) return;
    socket.once(socket instanceof TLSSocket ? 'secureConnect' : 'connect', () => {
      this.#connect = performance.now() - this.#sentAt;
    });
  }

  readonly #onData = (): void => {
    this.#arrival = performance.now();
  };

  readonly #onAbort = (): void => {
    this.#finish({ outcome: 'cancelled' });
    this.#request.destroy();
  };

  #receive(response: http.IncomingMessage): void {
    const type = response.headers['content-type'] ?? '';
    if (response.statusCode === 200 && type.includes('text/event-stream')) {
      response.on('data', (bytes: Buffer) => this.#take(bytes));
      response.on('end', () => this.#endStream(response.complete));
      response.on('error', () => this.#endStream(false));
      return;
    }
    const body: Buffer[] = [];
    let length = 0;
    response.on('data', (bytes: Buffer) => {
      if (length < ERROR_BODY_LIMIT) body.push(bytes);
      length += bytes.length;
    });
    const end = (): void =>
      this.#fail(notAStream(response.statusCode ?? 0, type, Buffer.concat(body).toString('utf8')));
    response.on('end', end);
    response.on('error', end);
  }

  #take(bytes: Buffer): void {
    this.#recorder.push(bytes, this.#arrival);
    if (!this.#recorder.settled || this.#grace !== undefined) return;
    this.#grace = setTimeout(() => {
      this.#endStream(false);
      this.#request.destroy();
    }, DONE_GRACE_MS);
  }

  #endStream(clean: boolean): void {
    const outcome = this.#recorder.end(clean);
    if ('failure' in outcome) this.#fail(outcome.failure);
    else this.#finish({ outcome: 'completed', timeline: outcome.timeline });
  }

  #fail(failure: Failure): void {
    this.#finish({ outcome: 'failed', failure });
  }

  #finish(result: Pick<Exchange, 'outcome' | 'timeline' | 'failure'>): void {
    if (this.#finished) return;
    this.#finished = true;
    clearTimeout(this.#grace);
    clearTimeout(this.#timeout);
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    this.#socket?.removeListener('data', this.#onData);
    this.#resolve({ sentAt: this.#sentAt, endAt: performance.now(), connect: this.#connect, ...result });
  }
}

function notAStream(status: number, type: string, body: string): Failure {
  if (status === 200) return { kind: 'malformed', message: `the answer is "${type}", not an event stream` };
  return { kind: `http_${status}`, message: messageOf(body) ?? body.slice(0, 200) };
}

function messageOf(body: string): string | undefined {
  try {
    const parsed: unknown = JSON.parse(body);
    return isObject(parsed) ? errorMessage(parsed) : undefined;
  } catch {
    return undefined;
  }
}
