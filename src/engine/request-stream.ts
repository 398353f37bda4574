/** The outputs of one request as an async iterator: what came since the last `next`, all at once. */
import { EngineError } from './client.js';
import type { ChoiceOutput } from './protocol.js';

type Result = IteratorResult<readonly ChoiceOutput[], undefined>;

export class RequestStream implements AsyncIterableIterator<readonly ChoiceOutput[], undefined> {
  readonly #start: () => void;
  readonly #cancel: () => void;
  readonly #release: () => void;
  #started = false;
  #queue: ChoiceOutput[] = [];
  #unfinished: number;
  #state: 'open' | 'ended' = 'open';
  #error: EngineError | undefined;
  #waiting: PromiseWithResolvers<Result>[] = [];

  /**
   * @param choices how many finishes make the end
   * @param start called at the first `next`
   * @param cancel called when the consumer leaves before the end of a request that was started
   * @param release called once, at the end, however it came
   */
  constructor(choices: number, start: () => void, cancel: () => void, release: () => void) {
    this.#unfinished = choices;
    this.#start = start;
    this.#cancel = cancel;
    this.#release = release;
  }

  /** Whether the request needs no further outputs. */
  get ended(): boolean {
    return this.#state === 'ended';
  }

  /** Takes an output in; `flush` hands it on. One with an error ends the request, whatever its other choices do. */
  push(output: ChoiceOutput): void {
    if (this.ended) return;
    if (output.error !== undefined) {
      this.#end(new EngineError(output.error.code, output.error.message, output.error.retryAfter));
      return;
    }
    this.#queue.push(output);
    if (output.finish !== undefined && --this.#unfinished === 0) this.#end();
  }

  /** Ends the request with an error, after what is queued already. */
  fail(error: EngineError): void {
    if (!this.ended) this.#end(error);
    this.flush();
  }

  /** Ends the request without a further output; the consumer's iteration ends. */
  abort(): void {
    this.#queue = [];
    this.#error = undefined;
    if (!this.ended) {
      this.#end();
      if (this.#started) this.#cancel();
    }
    this.flush();
  }

  /** Settles a waiting `next` if there is something for it. */
  flush(): void {
    while (this.#waiting.length > 0 && (this.#queue.length > 0 || this.ended)) {
      const { resolve, reject } = this.#waiting.shift()!;
      if (this.#queue.length > 0) {
        const value = this.#queue;
        this.#queue = [];
        resolve({ done: false, value });
      } else if (this.#error !== undefined) {
        const error = this.#error;
        this.#error = undefined;
        reject(error);
      } else {
        resolve({ done: true, value: undefined });
      }
    }
  }

  next(): Promise<Result> {
    if (!this.#started && !this.ended) {
      this.#started = true;
      this.#start();
    }
    const waiting = withResolvers<Result>();
    this.#waiting.push(waiting);
    this.flush();
    return waiting.promise;
  }

  async return(): Promise<Result> {
    this.abort();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #end(error?: EngineError): void {
    this.#state = 'ended';
    this.#error = error;
    this.#release();
  }
}

interface PromiseWithResolvers<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
}

function withResolvers<T>(): PromiseWithResolvers<T> {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}
