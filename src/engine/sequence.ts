/**
 * One choice of one request on its way through the engine: its tokens, how many of them are in the cache, and where. The
 * scheduler moves `computed` towards the end of `tokens`; each time it arrives there a token is sampled and appended.
 */
import { BlockTable } from './kv/block-table.js';
import type { FinishReason, GenerationRequest, Seconds, TokenId } from './protocol.js';
import type { Account } from './scheduler/account.js';

export type SequenceState = 'waiting' | 'running' | 'finished';

export class Sequence {
  readonly promptLength: number;
  /** Tokens of prompt and output at most; the context's length is taken into account. */
  readonly maxLength: number;
  readonly blocks = new BlockTable();

  state: SequenceState = 'waiting';
  /** Tokens, from the first on, whose keys and values are in the cache. */
  computed = 0;
  /** Tokens of the prompt that came from the prefix cache when it was first scheduled. */
  cachedTokens = 0;
  /** Tokens of the prompt whose log probability has been reported. */
  promptScored = 0;

  /**
   * Other choices of its request that start as copies of it once its prompt is computed, in order. Until then they are
   * nowhere else: they wait with it.
   */
  readonly forks: Sequence[] = [];
  /** The sequence that has this one among its forks. */
  origin: Sequence | undefined;

  finish: FinishReason | undefined;
  /** The end token that caused `finish: 'stop'`. */
  stopToken: TokenId | undefined;
  /** When it must have been scheduled first. */
  deadline: Seconds = Number.POSITIVE_INFINITY;
  firstScheduled: Seconds | undefined;
  firstToken: Seconds | undefined;
  preemptions = 0;

  /** The scheduler's: tokens this sequence computes in the step under way. */
  planned = 0;
  /** The scheduler's: rises with each time that a sequence is planned; the lowest has waited longest. */
  lastTurn = 0;
  /** The waiting queue's: where it lies there, -1 when it does not. */
  queueIndex = -1;
  /** The waiting queue's: whom its tokens are accounted to, while it is in the engine. */
  account: Account | undefined;
  /** The scheduler's: sequences behind it that were admitted before it because it did not fit. */
  passed = 0;

  readonly #endTokens: ReadonlySet<TokenId>;
  #tokens: Int32Array;
  #length: number;

  /**
   * @param order tells apart sequences of equal priority and arrival; rising
   * @param maxModelLen longest sequence that the engine serves; must exceed the prompt
   */
  constructor(
    readonly request: GenerationRequest,
    readonly choice: number,
    readonly order: number,
    maxModelLen: number,
  ) {
    this.promptLength = request.prompt.length;
    this.maxLength = Math.min(this.promptLength + request.maxTokens, maxModelLen);
    this.#endTokens = new Set(request.endTokens);
    this.#tokens = new Int32Array(Math.min(this.maxLength, this.promptLength + 64));
    this.#tokens.set(request.prompt);
    this.#length = this.promptLength;
  }

  /** Tokens so far, prompt and output. */
  get length(): number {
    return this.#length;
  }

  /** Tokens generated so far. */
  get generated(): number {
    return this.#length - this.promptLength;
  }

  /** Tokens that are known but not in the cache yet. */
  get pending(): number {
    return this.#length - this.computed;
  }

  /** Slots it can come to need: the last token it samples is never computed. */
  get maxSlots(): number {
    return Math.max(this.promptLength, this.maxLength - 1);
  }

  /** Whether a token is to be sampled once all that are known are computed. */
  get wantsToken(): boolean {
    return this.#length < this.maxLength;
  }

  /** Whether its next token is the one sampled last, not one of a prompt (or of what preemption made a prompt again). */
  get decoding(): boolean {
    return this.computed >= this.promptLength && this.pending === 1;
  }

  /** Takes in another choice of the same request that is to start as a copy of this one. */
  attach(fork: Sequence): void {
    this.forks.push(fork);
    fork.origin = this;
  }

  /** Leaves the sequence whose copy it was to be. */
  detach(): void {
    if (this.origin === undefined) return;
    this.origin.forks.splice(this.origin.forks.indexOf(this), 1);
    this.origin = undefined;
  }

  token(position: number): TokenId {
    return this.#tokens[position]!;
  }

  /** All tokens so far, a view that is valid until the next `append`. */
  get tokens(): Int32Array {
    return this.#tokens.subarray(0, this.#length);
  }

  /** Copies tokens from `start` to before `end` into `target`. */
  copyTokens(start: number, end: number, target: Int32Array, offset: number): void {
    const tokens = this.#tokens;
    for (let i = start; i < end; i++) target[offset + i - start] = tokens[i]!;
  }

  /** Adds a sampled token; returns why the sequence ends with it, if it does. */
  append(token: TokenId): FinishReason | undefined {
    if (this.#length === this.#tokens.length) {
      const grown = new Int32Array(Math.min(this.maxLength, this.#length * 2));
      grown.set(this.#tokens);
      this.#tokens = grown;
    }
    this.#tokens[this.#length++] = token;
    if (this.generated > this.request.minTokens && this.#endTokens.has(token)) {
      this.stopToken = token;
      return 'stop';
    }
    return this.wantsToken ? undefined : 'length';
  }
}

/** Order of service: by priority, then arrival, then the order in which sequences came in. Negative: a goes first. */
export function compareSequences(a: Sequence, b: Sequence): number {
  return a.request.priority - b.request.priority || a.request.arrival - b.request.arrival || a.order - b.order;
}
