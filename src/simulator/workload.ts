/** Requests of a simulated load: when they come, from whom, how long they are, and what they begin with. */
import { type GenerationRequest, PLAIN_REQUEST, type Seconds } from '../engine/protocol.js';
import { drawLength, type LengthDistribution } from '../loadgen/lengths.js';
import { arrivalTimes, type Load } from '../loadgen/load.js';
import { type RandomSource, randomInteger, randomSource } from '../loadgen/random.js';

export interface WorkloadOptions {
  readonly load: Load;
  readonly requests: number;
  readonly seed: number;
  readonly promptTokens: LengthDistribution;
  readonly outputTokens: LengthDistribution;
  /** Tokens before each prompt that many have in common. */
  readonly sharedPrefixTokens: number;
  /** How many different ones of them there are. */
  readonly prefixGroups: number;
  /** How many users the requests are spread over. */
  readonly users: number;
  /** Longest sequence; prompts and outputs are cut to it. */
  readonly maxModelLen: number;
  readonly queueTimeout?: Seconds | undefined;
}

/** Tokens are all the same to the scheduler: nothing is sampled from logits. */
const VOCABULARY = 50_000;

/** Hands out requests as their time comes. In a closed load, the next comes when one has ended. */
export class Workload {
  readonly #options: WorkloadOptions;
  readonly #random: RandomSource;
  readonly #prefixes: readonly Int32Array[];
  readonly #times: Iterator<number> | undefined;
  /** Times of requests that are due, of a closed load. */
  readonly #due: Seconds[] = [];
  #next: Seconds | undefined;
  #made = 0;

  constructor(options: WorkloadOptions) {
    const { load, seed, sharedPrefixTokens, prefixGroups } = options;
    this.#options = options;
    this.#random = randomSource(seed, 'requests');
    this.#prefixes = Array.from({ length: prefixGroups }, () => this.#tokens(new Int32Array(sharedPrefixTokens), 0));
    if (load.kind === 'open') this.#times = arrivalTimes(load, randomSource(seed, 'arrivals'));
    else this.#due.push(...new Array<Seconds>(Math.min(load.concurrency, options.requests)).fill(0));
    this.#advance();
  }

  /** When the next request comes; undefined when none does, or none before another has ended. */
  get next(): Seconds | undefined {
    return this.#next;
  }

  /** The request whose time is `next`. */
  take(): GenerationRequest {
    const { promptTokens, outputTokens, maxModelLen, users, sharedPrefixTokens, queueTimeout } = this.#options;
    const random = this.#random;
    const own = drawLength(promptTokens, random);
    const prompt = new Int32Array(Math.min(sharedPrefixTokens + own, maxModelLen - 1));
    const prefix = this.#prefixes[randomInteger(random, 0, this.#prefixes.length - 1)]!;
    prompt.set(prefix.subarray(0, prompt.length));
    this.#tokens(prompt, Math.min(sharedPrefixTokens, prompt.length));
    const request: GenerationRequest = {
      ...PLAIN_REQUEST,
      id: this.#made++,
      prompt,
      maxTokens: Math.min(drawLength(outputTokens, random), maxModelLen - prompt.length),
      user: users > 1 ? `user ${randomInteger(random, 1, users)}` : '',
      arrival: this.#next!,
      queueTimeout,
    };
    this.#advance();
    return request;
  }

  /** A request has ended. */
  ended(now: Seconds): void {
    if (this.#options.load.kind !== 'closed') return;
    this.#due.push(now);
    if (this.#next === undefined) this.#advance();
  }

  #advance(): void {
    if (this.#made >= this.#options.requests) this.#next = undefined;
    else if (this.#times !== undefined) this.#next = (this.#times.next().value as number) / 1000;
    else this.#next = this.#due.shift();
  }

  #tokens(target: Int32Array, from: number): Int32Array {
    for (let i = from; i < target.length; i++) target[i] = Math.floor(this.#random() * VOCABULARY);
    return target;
  }
}
