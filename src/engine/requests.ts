/** The requests in the engine, from acceptance to their end: what is taken in, what is refused, and what there is to tell. */
import { Choice, refusedOutputs } from './choice.js';
import type { PagedCache } from './kv/paged-cache.js';
import type { ChoiceOutput, EngineFault, FinishReason, GenerationRequest, RequestId, Seconds } from './protocol.js';
import { type QueueLimits, queueFull, queueFullFault, timeoutFault } from './scheduler/queue-limits.js';
import { refusal } from './scheduler/refusal.js';
import type { Scheduler } from './scheduler/scheduler.js';
import { Sequence } from './sequence.js';
import { Throughput } from './throughput.js';

export interface RequestLimits extends QueueLimits {
  /** Longest sequence, prompt and output. */
  readonly maxModelLen: number;
}

export class Requests {
  readonly #scheduler: Scheduler;
  readonly #cache: PagedCache;
  readonly #limits: RequestLimits;
  readonly #vocabSize: number;
  readonly #clock: () => Seconds;
  readonly #requests = new Map<RequestId, Choice[]>();
  readonly #choices = new Map<Sequence, Choice>();
  readonly #throughput = new Throughput();
  #started = { sequences: 0, tokens: 0 };
  #outputs: ChoiceOutput[] = [];
  #order = 0;

  constructor(scheduler: Scheduler, cache: PagedCache, limits: RequestLimits, vocabSize: number, clock: () => Seconds) {
    this.#scheduler = scheduler;
    this.#cache = cache;
    this.#limits = limits;
    this.#vocabSize = vocabSize;
    this.#clock = clock;
  }

  /** Whether there is something to tell. */
  get hasOutputs(): boolean {
    return this.#outputs.length > 0;
  }

  /** What there is to tell since the last call. */
  takeOutputs(): ChoiceOutput[] {
    const outputs = this.#outputs;
    this.#outputs = [];
    return outputs;
  }

  /** The choice that a sequence is; undefined once it has ended. */
  choiceOf(sequence: Sequence): Choice | undefined {
    return this.#choices.get(sequence);
  }

  accept(request: GenerationRequest): void {
    const fault = refusal(request, this.#limits.maxModelLen, this.#cache) ?? this.#crowdedOut(request);
    if (fault !== undefined) {
      this.#outputs.push(...refusedOutputs(request, fault, this.#clock()));
      return;
    }
    const { queueTimeout = Number.POSITIVE_INFINITY } = this.#limits;
    const deadline = request.arrival + Math.min(queueTimeout, request.queueTimeout ?? Number.POSITIVE_INFINITY);
    const choices: Choice[] = [];
    for (let index = 0; index < request.choices; index++) {
      const sequence = new Sequence(request, index, this.#order++, this.#limits.maxModelLen);
      sequence.deadline = deadline;
      const choice = new Choice(sequence, this.#vocabSize);
      choices.push(choice);
      this.#choices.set(sequence, choice);
      if (index > 0) choices[0]!.sequence.attach(sequence);
    }
    this.#scheduler.add(choices[0]!.sequence);
    this.#requests.set(request.id, choices);
  }

  abort(id: RequestId): void {
    this.#endRequest(id, 'abort');
  }

  abortAll(): void {
    for (const id of this.#requests.keys()) this.abort(id);
  }

  /** Ends the requests that were not started in time. */
  endOverdue(now: Seconds): void {
    for (const { request } of this.#scheduler.overdue(now)) {
      this.#endRequest(request.id, 'error', timeoutFault(now - request.arrival, this.#retryAfter()));
    }
  }

  /** Ends a choice that has not ended yet. */
  end(choice: Choice, reason: FinishReason, fault?: EngineFault): void {
    choice.fault = fault;
    this.#scheduler.finish(choice.sequence, reason);
    this.report(choice);
  }

  /** Queues what a choice has to tell, and forgets it after its end. */
  report(choice: Choice): void {
    const { sequence } = choice;
    const output = choice.takeOutput(this.#clock());
    if (output !== undefined) this.#outputs.push(output);
    if (sequence.state !== 'finished') return;
    this.#choices.delete(sequence);
    const { id } = sequence.request;
    if (this.#requests.get(id)?.every((other) => other.sequence.state === 'finished')) this.#requests.delete(id);
  }

  /** A step is over that took so long. */
  measure(seconds: Seconds): void {
    const { sequences, tokens } = this.#scheduler.started;
    this.#throughput.record(seconds, sequences - this.#started.sequences, tokens - this.#started.tokens);
    this.#started = { sequences, tokens };
  }

  /** Why there is no room for a request in the queue. One that waits may have to make room for it. */
  #crowdedOut(request: GenerationRequest): EngineFault | undefined {
    const { queue } = this.#scheduler;
    const prompt = request.prompt.length;
    const reason = queueFull(prompt, queue, this.#limits);
    if (reason === undefined) return undefined;
    const fault = queueFullFault(reason, this.#retryAfter());
    const surplus = this.#scheduler.surplus(request);
    if (surplus === undefined) return fault;
    const without = { ...queue, requests: queue.requests - 1, tokens: queue.tokens - surplus.promptLength };
    if (queueFull(prompt, without, this.#limits) !== undefined) return fault;
    this.#endRequest(surplus.request.id, 'error', fault);
    return undefined;
  }

  /** What waits now should be started by then. */
  #retryAfter(): Seconds | undefined {
    const { requests, tokens } = this.#scheduler.queue;
    return this.#throughput.timeToStart(requests, tokens);
  }

  #endRequest(id: RequestId, reason: FinishReason, fault?: EngineFault): void {
    for (const choice of this.#requests.get(id) ?? []) {
      if (choice.sequence.state !== 'finished') this.end(choice, reason, fault);
    }
  }
}
