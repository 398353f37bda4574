/**
 * Bytes of an event stream to its events, for every framing the standard allows: LF, CRLF, CR or a mix, comments, several
 * data lines, and cuts at any byte.
 */
import { createParser } from 'eventsource-parser';

export interface SseEvent {
  readonly event: string | undefined;
  readonly data: string;
}

export interface SseDecoderOptions {
  readonly onEvent: (event: SseEvent) => void;
  /** Called once, when one event or line is longer than `maxBufferSize`; nothing is decoded after it. */
  readonly onOverflow: () => void;
  /** Characters that may wait for the end of their event; default 1 Mi. */
  readonly maxBufferSize?: number;
}

export const DEFAULT_MAX_BUFFER_SIZE = 1 << 20;

/**
 * eventsource-parser holds a CR at the end of its input back until more comes, because an LF may follow. An event would
 * then be seen one network chunk late, and its time with it, so line ends are made LF here, as soon as they are seen.
 */
export class SseDecoder {
  readonly #decoder = new TextDecoder();
  readonly #parser: ReturnType<typeof createParser>;
  #afterCarriageReturn = false;
  #overflowed = false;

  constructor(options: SseDecoderOptions) {
    this.#parser = createParser({
      onEvent: (event) => options.onEvent({ event: event.event, data: event.data }),
      onError: (error) => {
        if (error.type !== 'max-buffer-size-exceeded') return;
        this.#overflowed = true;
        options.onOverflow();
      },
      maxBufferSize: options.maxBufferSize ?? DEFAULT_MAX_BUFFER_SIZE,
    });
  }

  /** Decodes the next bytes; events that they complete are reported before it returns. */
  push(bytes: Uint8Array): void {
    const text = this.#decoder.decode(bytes, { stream: true });
    if (this.#overflowed || text === '') return;
    this.#parser.feed(this.#withLineFeeds(text));
  }

  #withLineFeeds(text: string): string {
    const start = this.#afterCarriageReturn && text.startsWith('\n') ? 1 : 0;
    this.#afterCarriageReturn = text.endsWith('\r');
    return text.slice(start).replace(/\r\n?/g, '\n');
  }
}
