/**
 * Server-sent events: their framing, and a stream of them that knows when its reader is slow or gone. On a socket it
 * writes to Node's response directly, one write a step, since a web stream in between costs a fifth more per event; the
 * web stream serves apps called without a socket.
 */
import type { ServerResponse } from 'node:http';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { AppContext } from './context.js';

/** An event whose data is one line of JSON. */
export function event(json: string): string {
  return `data: ${json}\n\n`;
}

/** The same with a type, by which some readers tell events apart. */
export function namedEvent(type: string, json: string): string {
  return `event: ${type}\ndata: ${json}\n\n`;
}

export const doneEvent = event('[DONE]');
const keepAliveComment = ': keep-alive\n\n';

export const eventStreamHeaders = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no',
} as const;

/** Bytes that a web stream queues before its writer is asked to wait; Node's response has its own bound. */
const queueLimit = 64 * 1024;

export interface EventStream {
  /** What the route returns. */
  readonly response: Response;
  /** The reader is gone; writes do nothing. */
  readonly closed: boolean;
  /** Sends text of whole events; false asks to wait for `drained` before the next. */
  write(text: string): boolean;
  /** Sends a comment, which readers pass over, so that nobody in between takes the connection for dead. */
  keepAlive(): void;
  /** Resolves when there is room again, or when the reader is gone. */
  drained(): Promise<void>;
  /** Sends what is there, if only the headers. */
  flush(): void;
  end(): void;
  /** Drops the connection; the reader is gone then. */
  destroy(): void;
}

/** Opens the stream; status and headers go out with the first write or `flush`. `onClose` is called when the reader goes away before the end. */
export function openEventStream(c: AppContext, onClose: () => void): EventStream {
  const head = c.body(null, 200, eventStreamHeaders);
  const outgoing = c.env?.outgoing;
  return outgoing ? new SocketStream(outgoing, head, onClose) : new WebStream(head, onClose);
}

class SocketStream implements EventStream {
  readonly response = RESPONSE_ALREADY_SENT;
  private draining: Promise<void> | undefined;

  constructor(
    private readonly outgoing: ServerResponse,
    head: Response,
    onClose: () => void,
  ) {
    outgoing.on('close', () => {
      if (!outgoing.writableFinished) onClose();
    });
    // Writes to a connection that is being torn down report their failure here, and `close` follows.
    outgoing.on('error', () => {});
    if (this.closed) return;
    outgoing.writeHead(head.status, Object.fromEntries(head.headers));
  }

  get closed(): boolean {
    return this.outgoing.destroyed || this.outgoing.writableEnded;
  }

  write(text: string): boolean {
    return this.closed || this.outgoing.write(text);
  }

  keepAlive(): void {
    this.write(keepAliveComment);
  }

  drained(): Promise<void> {
    if (this.closed || !this.outgoing.writableNeedDrain) return Promise.resolve();
    this.draining ??= new Promise((resolve) => {
      const settle = () => {
        this.outgoing.off('drain', settle).off('close', settle);
        this.draining = undefined;
        resolve();
      };
      this.outgoing.on('drain', settle).on('close', settle);
    });
    return this.draining;
  }

  flush(): void {
    if (!this.closed) this.outgoing.flushHeaders();
  }

  end(): void {
    if (!this.closed) this.outgoing.end();
  }

  destroy(): void {
    this.outgoing.destroy();
  }
}

class WebStream implements EventStream {
  readonly response: Response;
  closed = false;
  private controller!: ReadableStreamDefaultController<Uint8Array>;
  private readonly encoder = new TextEncoder();
  private waiting: (() => void)[] = [];

  constructor(
    head: Response,
    private readonly onClose: () => void,
  ) {
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.controller = controller;
        },
        pull: () => this.wake(),
        cancel: () => {
          this.closed = true;
          this.wake();
          this.onClose();
        },
      },
      new ByteLengthQueuingStrategy({ highWaterMark: queueLimit }),
    );
    this.response = new Response(body, { status: head.status, headers: head.headers });
  }

  write(text: string): boolean {
    if (this.closed) return true;
    this.controller.enqueue(this.encoder.encode(text));
    return (this.controller.desiredSize ?? 0) > 0;
  }

  keepAlive(): void {
    this.write(keepAliveComment);
  }

  drained(): Promise<void> {
    if (this.closed || (this.controller.desiredSize ?? 0) > 0) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  flush(): void {}

  end(): void {
    if (this.closed) return;
    this.closed = true;
    this.controller.close();
  }

  destroy(): void {
    if (this.closed) return;
    this.closed = true;
    this.controller.error(new Error('The stream was dropped.'));
    this.wake();
    this.onClose();
  }

  private wake(): void {
    const waiting = this.waiting;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}
