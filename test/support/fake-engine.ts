/** An engine that replays given tokens, step by step, and counts what is asked of it. */
import { type EngineClient, EngineError, type EngineState, type NewRequest } from '../../src/engine/client.js';
import type {
  ChoiceOutput,
  EngineFaultCode,
  EngineInfo,
  EngineStats,
  TokenLogprobs,
} from '../../src/engine/protocol.js';
import { end, vocabSize } from './fake-text.js';

export interface FakeEngineOptions {
  /** Tokens of a choice; after the last come end tokens. */
  readonly reply?: (request: NewRequest, choice: number) => readonly number[];
  /** Tokens a step; default 1. */
  readonly tokensPerStep?: number;
  /** Awaited before every step. */
  readonly beforeStep?: (step: number, request: NewRequest) => Promise<void> | void;
  /** Fails every request at this step. */
  readonly failAt?: {
    readonly step: number;
    readonly code: EngineFaultCode;
    readonly asOutput?: boolean;
    readonly retryAfter?: number;
  };
  readonly cachedTokens?: number;
  readonly maxModelLen?: number;
}

/** The log probability that the fake gives a token at a position; always negative, different for neighbours. */
export function fakeLogprob(token: number, position: number): number {
  return -0.01 - ((token * 31 + position * 7) % 97) / 10;
}

export function fakeLogprobs(token: number, position: number, count: number): TokenLogprobs {
  const alternatives = Array.from({ length: count }, (_, i) => (token + i) % vocabSize);
  return {
    token,
    logprob: fakeLogprob(token, position),
    // It is its own likeliest alternative where there are any.
    rank: count > 0 ? 1 : 7,
    top: alternatives.map((other, i) => ({ token: other, logprob: fakeLogprob(token, position) - i })),
  };
}

export class FakeEngine implements EngineClient {
  state: EngineState = 'ready';
  info: EngineInfo | undefined;
  stats: EngineStats | undefined;
  stepDueSince: number | undefined;
  /** Every request that was made. */
  readonly requests: NewRequest[] = [];
  /** Requests being served. */
  running = 0;
  /** Requests that were left before all their choices had ended. */
  aborted = 0;
  steps = 0;
  closed = 0;
  /** Times that cached prefixes were to be forgotten. */
  resets = 0;
  private readonly closing = new AbortController();

  constructor(private readonly options: FakeEngineOptions = {}) {
    this.info = {
      device: 'cpu',
      deviceDescription: 'a fake',
      precision: 'fp32',
      vocabSize,
      maxModelLen: options.maxModelLen ?? 256,
      blockSize: 16,
      numBlocks: 64,
      kvCacheBytes: 1 << 20,
      kvCacheDtype: 'float32',
      mixedSteps: true,
    };
  }

  ready(): Promise<EngineInfo> {
    return Promise.resolve(this.info!);
  }

  async *generate(request: NewRequest, signal?: AbortSignal): AsyncGenerator<readonly ChoiceOutput[]> {
    this.requests.push(request);
    this.running++;
    let done = false;
    try {
      const choices = Array.from({ length: request.choices }, (_, choice) => new Replay(request, choice, this.options));
      for (let step = 0; !done; step++) {
        const stops = signal ? AbortSignal.any([signal, this.closing.signal]) : this.closing.signal;
        if (await stopped(this.options.beforeStep?.(step, request), stops)) {
          if (signal?.aborted) return;
          throw new EngineError('closed', 'The engine is closing.');
        }
        this.steps++;
        const { failAt } = this.options;
        if (failAt?.step === step) {
          const { code, retryAfter } = failAt;
          const error = { code, message: `failed with ${code}`, ...(retryAfter !== undefined && { retryAfter }) };
          if (!failAt.asOutput) throw new EngineError(error.code, error.message, retryAfter);
          yield [{ request: 0, choice: 0, tokens: [], finish: 'error', error }];
          return;
        }
        const outputs = choices.filter((choice) => !choice.ended).map((choice) => choice.step(step));
        done = choices.every((choice) => choice.ended);
        yield outputs;
      }
    } finally {
      this.running--;
      if (!done) this.aborted++;
    }
  }

  resetPrefixCache(): void {
    this.resets++;
  }

  close(): Promise<void> {
    this.closed++;
    this.state = 'closed';
    this.closing.abort();
    return Promise.resolve();
  }
}

/** Waits for a step's turn; true when the signal came first. */
async function stopped(turn: Promise<void> | void, signal: AbortSignal): Promise<boolean> {
  if (!signal.aborted) {
    let abort = () => {};
    const aborted = new Promise<void>((resolve) => {
      abort = resolve;
      signal.addEventListener('abort', abort);
    });
    await Promise.race([turn, aborted]);
    signal.removeEventListener('abort', abort);
  }
  return signal.aborted;
}

class Replay {
  ended = false;
  private count = 0;
  private readonly script: readonly number[];

  constructor(
    private readonly request: NewRequest,
    private readonly choice: number,
    private readonly options: FakeEngineOptions,
  ) {
    this.script = options.reply?.(request, choice) ?? [];
  }

  step(step: number): ChoiceOutput {
    const { request, choice } = this;
    const tokens: number[] = [];
    let finish: ChoiceOutput['finish'];
    let stopToken: number | undefined;
    const room = request.maxTokens;
    for (let i = 0; i < (this.options.tokensPerStep ?? 1) && finish === undefined && this.count < room; i++) {
      const token = this.script[this.count] ?? end;
      tokens.push(token);
      this.count++;
      if (request.endTokens.includes(token) && this.count > request.minTokens) {
        finish = 'stop';
        stopToken = token;
      } else if (this.count === room) finish = 'length';
    }
    if (room === 0) finish = 'length';
    this.ended = finish !== undefined;
    const first = this.count - tokens.length;
    const { logprobs, promptLogprobs } = request;
    return {
      request: 0,
      choice,
      tokens,
      ...(logprobs !== undefined && { logprobs: tokens.map((token, i) => fakeLogprobs(token, first + i, logprobs)) }),
      ...(promptLogprobs !== undefined &&
        step === 0 &&
        choice === 0 && {
          promptLogprobs: Array.from(request.prompt, (token, i) =>
            i === 0 ? null : fakeLogprobs(token, i, promptLogprobs),
          ),
        }),
      ...(step === 0 && { cachedTokens: this.options.cachedTokens ?? 0 }),
      ...(finish !== undefined && { finish }),
      ...(stopToken !== undefined && { stopToken }),
    };
  }
}
