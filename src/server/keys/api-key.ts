/**
 * One API key with its limits. A request takes its place at arrival; its tokens are counted at its end, when they are
 * known, so that a key may overdraw once and then waits until it is even again.
 */
import { ApiError } from '../errors.js';
import { TokenBucket } from './token-bucket.js';

export interface KeyLimits {
  readonly requestsPerMinute?: number | undefined;
  /** Tokens of prompts and answers. */
  readonly tokensPerMinute?: number | undefined;
  /** Requests being served at once. */
  readonly maxConcurrency?: number | undefined;
}

export interface KeySpec extends KeyLimits {
  /** Stands for the key in logs, in fair sharing and in who may cancel a request; never secret. */
  readonly name: string;
  /** SHA-256 of the key. */
  readonly hash: Buffer;
}

/** A request's place; `end` is called once with the tokens it cost. */
export interface KeyUse {
  end(tokens: number): void;
}

export class ApiKey {
  readonly name: string;
  readonly hash: Buffer;
  private readonly requests: TokenBucket | undefined;
  private readonly tokens: TokenBucket | undefined;
  private readonly maxConcurrency: number;
  private running = 0;

  /** @param clock seconds */
  constructor(
    spec: KeySpec,
    private readonly clock: () => number = () => performance.now() / 1000,
  ) {
    this.name = spec.name;
    this.hash = spec.hash;
    const now = clock();
    this.requests = bucket(spec.requestsPerMinute, now);
    this.tokens = bucket(spec.tokensPerMinute, now);
    this.maxConcurrency = spec.maxConcurrency ?? Number.POSITIVE_INFINITY;
  }

  /** Takes a place for a request. Throws ApiError (429, with Retry-After) where a limit is reached. */
  begin(): KeyUse {
    const now = this.clock();
    if (this.running >= this.maxConcurrency) {
      throw tooMany(`${this.maxConcurrency} running at once`, 'concurrency_limit_exceeded', 1);
    }
    refuse(this.requests, 1, now, 'requests');
    refuse(this.tokens, Number.EPSILON, now, 'tokens');
    this.requests?.take(1, now);
    this.running++;
    let ended = false;
    return {
      end: (tokens) => {
        if (ended) return;
        ended = true;
        this.running--;
        this.tokens?.take(tokens, this.clock());
      },
    };
  }

  /** OpenAI's headers for the limits there are. */
  headers(): Record<string, string> {
    const now = this.clock();
    return { ...headersOf(this.requests, 'requests', now), ...headersOf(this.tokens, 'tokens', now) };
  }
}

type Counted = 'requests' | 'tokens';

function bucket(perMinute: number | undefined, now: number): TokenBucket | undefined {
  return perMinute === undefined ? undefined : new TokenBucket(perMinute, now);
}

function refuse(limit: TokenBucket | undefined, amount: number, now: number, counted: Counted): void {
  const wait = limit?.wait(amount, now) ?? 0;
  if (limit !== undefined && wait > 0) {
    throw tooMany(`${limit.perMinute} ${counted} a minute`, 'rate_limit_exceeded', Math.ceil(wait));
  }
}

function tooMany(limit: string, code: string, retryAfter: number): ApiError {
  return new ApiError(429, `This API key is limited to ${limit}. Try again in ${retryAfter} s.`, { code, retryAfter });
}

function headersOf(limit: TokenBucket | undefined, counted: Counted, now: number): Record<string, string> {
  if (limit === undefined) return {};
  return {
    [`x-ratelimit-limit-${counted}`]: String(limit.perMinute),
    [`x-ratelimit-remaining-${counted}`]: String(Math.max(0, Math.floor(limit.left(now)))),
    [`x-ratelimit-reset-${counted}`]: `${limit.wait(limit.perMinute, now).toFixed(3)}s`,
  };
}
