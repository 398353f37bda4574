/**
 * Hands on what steps brought, a bounded number of requests in each turn of the event loop: a step of a thousand
 * sequences would else hold up everything that waits for the thread. Steps that come faster than they can be handed on
 * are joined, request by request, so that a busy thread does less for each token.
 */

interface Flushable {
  flush(): void;
}

/** Requests a turn: a few milliseconds of writing. */
const perTurn = 64;

export class FlushQueue {
  readonly #waiting = new Set<Flushable>();
  #scheduled = false;

  add(stream: Flushable): void {
    this.#waiting.add(stream);
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#turn());
  }

  #turn(): void {
    let left = perTurn;
    for (const stream of this.#waiting) {
      if (left-- === 0) break;
      this.#waiting.delete(stream);
      stream.flush();
    }
    this.#scheduled = this.#waiting.size > 0;
    if (this.#scheduled) setImmediate(() => this.#turn());
  }
}
