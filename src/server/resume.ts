/**
 * Streams that survive their connection. Every event gets an id and is kept for a while; a generation whose reader is
 * gone goes on, and the reader may come back with the id of the last event it has (Last-Event-ID) for exactly the rest.
 */
import { randomBytes } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import { readBody } from './body.js';
import type { ServerConfig } from './config.js';
import type { AppContext, AppEnv } from './context.js';
import { ApiError } from './errors.js';
import { ownerOf } from './keys/authenticate.js';
import { type EventStream, openEventStream } from './sse.js';

export const streamIdHeader = 'X-Stream-Id';

export interface ResumeLimits {
  /** Seconds that a stream without a reader is kept, running or ended. */
  readonly window: number;
  /** Characters of events that a stream keeps, and that all of them keep together. */
  readonly perStream: number;
  readonly total: number;
}

export class ResumableStreams {
  private readonly streams = new Map<string, ResumableStream>();
  private kept = 0;

  constructor(private readonly limits: ResumeLimits) {}

  /**
   * Opens a stream to the reader of `c`. `onAbandoned` is called when nobody has come back for it in time. Undefined
   * where too much is kept already.
   */
  open(c: AppContext, owner: string, onAbandoned: () => void): EventStream | undefined {
    this.makeRoom();
    if (this.kept >= this.limits.total) return undefined;
    const id = randomBytes(16).toString('base64url');
    const stream = new ResumableStream(id, owner, this.limits, {
      keep: (characters) => {
        this.kept += characters;
      },
      forget: () => this.streams.delete(id),
      onAbandoned,
    });
    this.streams.set(id, stream);
    stream.attach(c, 0);
    return stream;
  }

  /**
   * Goes on with a stream after an event, or from its beginning. Throws ApiError (404) where there is none of the
   * caller's, or where it no longer has all that came after that event.
   */
  resume(c: AppContext, owner: string, { id, after }: { readonly id: string; readonly after: number }): Response {
    const stream = this.streams.get(id);
    if (stream === undefined || stream.owner !== owner) throw streamNotFound();
    return stream.attach(c, after);
  }

  /** Forgets ended streams, the oldest first, until there is room. */
  private makeRoom(): void {
    for (const stream of this.streams.values()) {
      if (this.kept < this.limits.total) return;
      if (stream.ended) stream.forget();
    }
  }
}

/**
 * Goes on with an interrupted stream where a request has Last-Event-ID, as readers of event streams send it when they
 * repeat a request by themselves.
 */
export function resumption(streams: ResumableStreams, config: ServerConfig): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const lastEvent = c.req.header('Last-Event-ID');
    if (lastEvent === undefined) return next();
    await readBody(c, config.maxBodyBytes);
    return streams.resume(c, ownerOf(c), parseEventId(lastEvent));
  };
}

/** The stream and the number of an event, from its id. Throws ApiError (404) for what is none. */
export function parseEventId(text: string): { readonly id: string; readonly after: number } {
  const [, id, number] = /^([\w-]{22})\.(\d{1,15})$/.exec(text) ?? [];
  if (id === undefined || number === undefined) throw streamNotFound();
  return { id, after: Number(number) };
}

function streamNotFound(): ApiError {
  return new ApiError(404, 'There is no such stream, or no longer: send the request anew.', {
    code: 'stream_not_found',
  });
}

interface Surroundings {
  keep(characters: number): void;
  forget(): void;
  onAbandoned(): void;
}

class ResumableStream implements EventStream {
  /** To the latest reader. */
  response!: Response;
  closed = false;
  ended = false;
  private reader: EventStream | undefined;
  private readonly events: string[] = [];
  /** Number of the first event that is kept; the first of all is 1. */
  private first = 1;
  private characters = 0;
  private expiry: NodeJS.Timeout | undefined;
  private waiting: (() => void)[] = [];

  constructor(
    private readonly id: string,
    readonly owner: string,
    private readonly limits: ResumeLimits,
    private readonly surroundings: Surroundings,
  ) {}

  /** Sends everything after an event to the reader of `c`, and what comes from now on; the reader before is dropped. */
  attach(c: AppContext, after: number): Response {
    const next = this.first + this.events.length;
    if (after < this.first - 1 || after >= next) throw streamNotFound();
    const before = this.reader;
    c.header(streamIdHeader, this.id);
    const reader = openEventStream(c, () => this.detach(reader));
    this.reader = reader;
    this.response = reader.response;
    before?.destroy();
    clearTimeout(this.expiry);
    const missed = this.events.slice(after + 1 - this.first).join('');
    if (missed !== '') reader.write(missed);
    else if (after > 0) reader.flush();
    if (this.ended) {
      reader.end();
      this.expire();
    }
    if (reader.closed) this.detach(reader);
    this.wake();
    return reader.response;
  }

  write(text: string): boolean {
    if (this.closed) return true;
    const events = this.numbered(text);
    const reader = this.reader;
    if (reader !== undefined) return reader.write(events);
    return this.characters < this.limits.perStream;
  }

  keepAlive(): void {
    this.reader?.keepAlive();
  }

  /** Waits for the reader; without one, until what is kept has room again, which takes a new reader. */
  async drained(): Promise<void> {
    while (!this.closed) {
      const { reader } = this;
      if (reader !== undefined) {
        await reader.drained();
        if (this.reader === reader) return;
      } else if (this.characters < this.limits.perStream) {
        return;
      } else {
        await new Promise<void>((resolve) => this.waiting.push(resolve));
      }
    }
  }

  flush(): void {
    this.reader?.flush();
  }

  /** What was sent last may not have arrived: the stream is kept. */
  end(): void {
    if (this.ended || this.closed) return;
    this.ended = true;
    this.reader?.end();
    this.expire();
  }

  destroy(): void {
    this.reader?.destroy();
  }

  forget(): void {
    clearTimeout(this.expiry);
    this.surroundings.forget();
    this.surroundings.keep(-this.characters);
    this.characters = 0;
    this.events.length = 0;
    this.closed = true;
    this.wake();
  }

  private numbered(text: string): string {
    let numbered = '';
    for (let from = 0; from < text.length; ) {
      const end = text.indexOf('\n\n', from) + 2;
      const event = `id: ${this.id}.${this.first + this.events.length}\n${text.slice(from, end)}`;
      this.events.push(event);
      this.keep(event.length);
      numbered += event;
      from = end;
    }
    // What a reader was sent is given up first; nothing else may be.
    while (this.characters > this.limits.perStream && this.reader !== undefined && this.events.length > 1) {
      this.keep(-this.events.shift()!.length);
      this.first++;
    }
    return numbered;
  }

  private keep(characters: number): void {
    this.characters += characters;
    this.surroundings.keep(characters);
  }

  private detach(reader: EventStream): void {
    if (this.reader !== reader) return;
    this.reader = undefined;
    this.expire();
    this.wake();
  }

  /** Ends the stream's life unless a reader comes in time. */
  private expire(): void {
    if (this.closed) return;
    clearTimeout(this.expiry);
    this.expiry = setTimeout(() => {
      const abandoned = !this.ended;
      this.forget();
      if (abandoned) this.surroundings.onAbandoned();
    }, this.limits.window * 1000).unref();
  }

  private wake(): void {
    const { waiting } = this;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}
