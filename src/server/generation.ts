/**
 * Runs one request of the API on the engine: every prompt is an engine request with its choices, all of them merged into
 * one run of steps. It ends a choice at a stop string, and an engine request once none of its choices is open.
 */
import { setMaxListeners } from 'node:events';
import { type EngineClient, EngineError, type NewRequest } from '../engine/client.js';
import type { ChoiceOutput, EngineFault, TokenLogprobs } from '../engine/protocol.js';
import type { RequestMeter } from '../telemetry/request-metrics.js';
import type { TextModel } from '../text/text-model.js';
import { Choice, type ChoiceDelta, type ChoiceOptions } from './choice.js';
import { type Usage, usageOf } from './usage.js';

export interface Job {
  /** One engine request a prompt, each with the same number of choices. */
  readonly requests: readonly NewRequest[];
  readonly choice: ChoiceOptions;
}

/** What a step added to one choice. */
export interface StepDelta {
  /** Index of the choice in the answer: prompt * choices + choice. */
  readonly index: number;
  readonly prompt: number;
  /** The first that is heard of this choice. */
  readonly first: boolean;
  readonly delta: ChoiceDelta;
}

/** Called with what a step added; a promise holds back the prompt's next step until it settles. */
export type StepHandler = (deltas: readonly StepDelta[]) => Promise<void> | undefined;

export class Generation {
  readonly choices: readonly Choice[];
  /** Of each prompt, as far as they were asked for and have come; complete before the prompt's first delta. */
  readonly promptLogprobs: readonly (TokenLogprobs | null)[][];
  readonly promptTokens: number;
  completionTokens = 0;
  /** Prompt tokens that came from the cache; a prompt counts once, as in `promptTokens`. */
  cachedTokens = 0;
  private readonly started = new Set<number>();
  private readonly cancelling = new AbortController();
  /** Of each choice, unless nothing is measured. */
  private readonly meters: readonly (RequestMeter | undefined)[];

  /** @param begin begins to measure a choice with a prompt of so many tokens */
  constructor(
    private readonly engine: EngineClient,
    text: TextModel,
    readonly job: Job,
    begin?: (promptTokens: number) => RequestMeter | undefined,
  ) {
    this.choices = job.requests.flatMap((request) =>
      Array.from({ length: request.choices }, () => new Choice(text, job.choice, request.prompt)),
    );
    this.meters = job.requests.flatMap((request) =>
      Array.from({ length: request.choices }, () => begin?.(request.prompt.length)),
    );
    this.promptLogprobs = job.requests.map(() => []);
    this.promptTokens = job.requests.reduce((sum, request) => sum + request.prompt.length, 0);
  }

  /** Token counts so far. */
  usage(): Usage {
    return usageOf(this.promptTokens, this.completionTokens, this.cachedTokens);
  }

  /** Ends every choice that is still open with what it has, as if the engine had done so. */
  cancel(): void {
    this.cancelling.abort();
  }

  /**
   * Generates until every choice has ended or `signal` aborts, after which nothing is told any more. Throws EngineError
   * when the engine refuses or loses one of the requests; the others are aborted.
   */
  async run(onStep: StepHandler, signal: AbortSignal): Promise<void> {
    try {
      await this.runPrompts(onStep, AbortSignal.any([signal, this.cancelling.signal]));
      if (this.cancelling.signal.aborted && !signal.aborted) await this.endOpen(onStep);
    } finally {
      const now = performance.now();
      const reason = signal.aborted || this.cancelling.signal.aborted ? 'abort' : 'error';
      for (const meter of this.meters) meter?.end(reason, now);
    }
  }

  private async endOpen(onStep: StepHandler): Promise<void> {
    const now = performance.now();
    const open = [...this.choices.entries()].filter(([, choice]) => choice.finish === undefined);
    const deltas = open.map(([index, choice]) => this.told(index, choice.abort(), now));
    if (deltas.length > 0) await onStep(deltas);
  }

  private async runPrompts(onStep: StepHandler, signal: AbortSignal): Promise<void> {
    const [only] = this.job.requests;
    if (this.job.requests.length === 1 && only) return this.pump(only, 0, onStep, signal);

    const controller = new AbortController();
    // Every prompt's stream listens.
    setMaxListeners(0, controller.signal);
    const abort = () => controller.abort();
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    let failure: { readonly error: unknown } | undefined;
    const pumps = this.job.requests.map((request, prompt) =>
      this.pump(request, prompt, onStep, controller.signal).catch((error: unknown) => {
        failure ??= { error };
        abort();
      }),
    );
    await Promise.all(pumps);
    signal.removeEventListener('abort', abort);
    if (failure) throw failure.error;
  }

  private async pump(request: NewRequest, prompt: number, onStep: StepHandler, signal: AbortSignal): Promise<void> {
    const logprobs = this.promptLogprobs[prompt]!;
    const wanted = request.promptLogprobs === undefined ? 0 : request.prompt.length;
    let open = request.choices;
    let deltas: StepDelta[] = [];
    for await (const outputs of this.engine.generate(request, signal)) {
      const now = performance.now();
      for (const output of outputs) {
        if (output.promptLogprobs) logprobs.push(...output.promptLogprobs);
        const delta = this.step(output, prompt * request.choices + output.choice, now, signal);
        if (delta === undefined) continue;
        deltas.push(delta);
        if (delta.delta.finish !== undefined) open--;
      }
      if (deltas.length > 0 && logprobs.length >= wanted) {
        const held = onStep(deltas);
        deltas = [];
        if (held !== undefined) await held;
      }
      if (open === 0) break;
    }
    if (open > 0 && !signal.aborted)
      throw new EngineError('closed', 'The engine ended before the answer was complete.');
  }

  private step(output: ChoiceOutput, index: number, now: number, signal: AbortSignal): StepDelta | undefined {
    const choice = this.choices[index]!;
    if (choice.finish !== undefined || signal.aborted) return undefined;
    if (output.finish === 'error' || output.finish === 'abort') {
      const { code, message, retryAfter }: EngineFault = output.error ?? {
        code: 'closed',
        message: 'The server aborted the request.',
      };
      throw new EngineError(code, message, retryAfter);
    }
    if (output.choice === 0) this.cachedTokens += output.cachedTokens ?? 0;
    if (output.tokens.length === 0 && output.finish === undefined) return undefined;
    const delta = choice.push(output);
    return delta && this.told(index, delta, now);
  }

  private told(index: number, delta: ChoiceDelta, now: number): StepDelta {
    this.completionTokens += delta.tokenIds.length;
    const meter = this.meters[index];
    meter?.output(delta.tokenIds.length, now);
    if (delta.finish !== undefined) meter?.end(delta.finish.reason, now);
    const first = !this.started.has(index);
    if (first) this.started.add(index);
    return { index, prompt: Math.floor(index / this.job.requests[0]!.choices), first, delta };
  }
}
