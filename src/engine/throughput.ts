/** How fast requests leave the waiting queue, measured while the engine works: what a Retry-After is estimated from. */
import type { Seconds } from './protocol.js';

/** Working time in which what was measured loses half its weight. */
const HALF_LIFE: Seconds = 15;

export class Throughput {
  #seconds = 0;
  #requests = 0;
  #tokens = 0;

  /** A step took so long and started so many requests, with so many tokens of prompts. */
  record(seconds: Seconds, requests: number, tokens: number): void {
    const keep = 0.5 ** (seconds / HALF_LIFE);
    this.#seconds = this.#seconds * keep + seconds;
    this.#requests = this.#requests * keep + requests;
    this.#tokens = this.#tokens * keep + tokens;
  }

  /** How long so many waiting requests with so many tokens of prompts will take to start; undefined when nothing is known. */
  timeToStart(requests: number, tokens: number): Seconds | undefined {
    if (this.#requests === 0 || this.#tokens === 0) return undefined;
    return this.#seconds * Math.max(requests / this.#requests, tokens / this.#tokens);
  }
}
