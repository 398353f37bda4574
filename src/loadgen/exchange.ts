/** Sends one streamed request over `node:http` and follows the answer to its end. */
import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
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

/** Never rejects: whatever goes wrong is an outcome. */
export function exchange(target: Target, request: PreparedRequest, options: ExchangeOptions): Promise<Exchange> {
  return new Promise((resolve) => {
    const recorder = new StreamRecorder();
    const url = new URL(target.baseUrl + request.path);
    let arrival: Milliseconds = 0;
    let connect: Milliseconds = 0;
    let grace: NodeJS.Timeout | undefined;
    let timeout: NodeJS.Timeout | undefined;
    let finished = false;

    const clientRequest = (url.protocol === 'https:' ? https : http).request(url, {
      method: 'POST',
      agent: options.agent,
      headers: { accept: 'text/event-stream', ...target.headers, 'content-length': request.body.length },
    });

    const finish = (result: Pick<Exchange, 'outcome' | 'timeline' | 'failure'>): void => {
      if (finished) return;
      finished = true;
      clearTimeout(grace);
      clearTimeout(timeout);
      options.signal?.removeEventListener('abort', onAbort);
      detach?.();
      resolve({ sentAt, endAt: performance.now(), connect, ...result });
    };
    const fail = (failure: Failure): void => finish({ outcome: 'failed', failure });
    const endStream = (clean: boolean): void => {
      const outcome = recorder.end(clean);
      if ('failure' in outcome) fail(outcome.failure);
      else finish({ outcome: 'completed', timeline: outcome.timeline });
    };
    const onAbort = (): void => {
      finish({ outcome: 'cancelled' });
      clientRequest.destroy();
    };

    // The listener stands before the HTTP parser's own, so a packet's time is taken before any of it is parsed.
    let detach: (() => void) | undefined;
    clientRequest.on('socket', (socket: Socket) => {
      const onData = (): void => {
        arrival = performance.now();
      };
      socket.prependListener('data', onData);
      detach = () => socket.removeListener('data', onData);
      const ready = url.protocol === 'https:' ? 'secureConnect' : 'connect';
      if (!clientRequest.reusedSocket) {
        socket.once(ready, () => {
          connect = performance.now() - sentAt;
        });
      }
    });

    clientRequest.on('response', (response) => {
      const type = response.headers['content-type'] ?? '';
      const isStream = response.statusCode === 200 && type.includes('text/event-stream');
      const errorBody: Buffer[] = [];
      let kept = 0;
      response.on('data', (bytes: Buffer) => {
        if (!isStream) {
          if (kept < ERROR_BODY_LIMIT) errorBody.push(bytes);
          kept += bytes.length;
          return;
        }
        recorder.push(bytes, arrival);
        if (recorder.settled && grace === undefined) {
          grace = setTimeout(() => {
            endStream(false);
            clientRequest.destroy();
          }, DONE_GRACE_MS);
        }
      });
      const onEnd = (clean: boolean): void => {
        if (isStream) endStream(clean);
        else fail(notAStream(response.statusCode ?? 0, type, Buffer.concat(errorBody).toString('utf8')));
      };
      response.on('end', () => onEnd(response.complete));
      response.on('error', () => onEnd(false));
    });
    clientRequest.on('error', (error) => {
      const code = 'code' in error ? String(error.code) : '';
      fail({ kind: 'connection', message: error.message || code });
    });

    options.signal?.addEventListener('abort', onAbort, { once: true });
    const sentAt = performance.now();
    timeout = setTimeout(() => {
      fail({ kind: 'timeout', message: `not complete after ${options.timeout} ms` });
      clientRequest.destroy();
    }, options.timeout);
    clientRequest.end(request.body);
  });
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
