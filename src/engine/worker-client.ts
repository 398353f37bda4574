/** The engine as the server sees it: a proxy that implements EngineClient over the messages of the engine's worker. */
import { Worker } from 'node:worker_threads';
import { compiledScript } from '../compiled.js';
import { UserError } from '../errors.js';
import { type EngineClient, EngineError, type EngineState, type NewRequest } from './client.js';
import { now } from './clock.js';
import { FlushQueue } from './flush-queue.js';
import type {
  ChoiceOutput,
  Command,
  EngineConfig,
  EngineInfo,
  EngineStats,
  RequestId,
  Seconds,
  WorkerMessage,
} from './protocol.js';
import { RequestStream } from './request-stream.js';

export interface StartOptions {
  /** While loading: what is being done, and how much of it is, 0 to 1. */
  readonly onProgress?: (phase: string, fraction: number) => void;
  /** After every step, with all that came out of it, also for requests whose client has left. */
  readonly onStep?: (stats: EngineStats, outputs: readonly ChoiceOutput[]) => void;
  /** The engine could not start or is lost; called once, also when nothing waits for it. */
  readonly onFailure?: (error: Error) => void;
  /** Milliseconds that `close` waits for the step under way before it ends the thread by force; 10,000 if not given. */
  readonly closeTimeout?: number;
  /** The worker's script, if not the engine's own. */
  readonly worker?: URL;
}

/** Much of what a step allocates is dead when it ends: a quarter of what V8 lets this grow to collects it as well. */
const YOUNG_GENERATION_MB = 12;

/** Whether whoever started the process did, which goes before. */
function limitsYoungGeneration(): boolean {
  return [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].some((flag) => flag.includes('semi-space-size'));
}

/** Starts the engine's thread and the loading of its model. */
export function startEngine(config: EngineConfig, options: StartOptions = {}): WorkerEngineClient {
  return new WorkerEngineClient(
    new Worker(options.worker ?? compiledScript('./worker.js', import.meta.url), {
      workerData: config,
      name: 'engine',
      ...(!limitsYoungGeneration() && { resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB } }),
    }),
    options,
  );
}

export class WorkerEngineClient implements EngineClient {
  readonly #worker: Worker;
  readonly #options: StartOptions;
  readonly #streams = new Map<RequestId, RequestStream>();
  readonly #flushes = new FlushQueue();
  readonly #ready: Promise<EngineInfo>;
  readonly #exited: Promise<void>;
  #settleReady!: { resolve: (info: EngineInfo) => void; reject: (error: Error) => void };
  #commands: Command[] = [];
  #nextId: RequestId = 1;
  #closing: Promise<void> | undefined;
  #state: EngineState = 'loading';
  #info: EngineInfo | undefined;
  #stats: EngineStats | undefined;
  /** When the engine last got work after it had none. */
  #busySince: Seconds = 0;

  constructor(worker: Worker, options: StartOptions) {
    this.#worker = worker;
    this.#options = options;
    this.#ready = new Promise((resolve, reject) => {
      this.#settleReady = { resolve, reject };
    });
    // Whoever does not wait for readiness learns of a failure by `onFailure` and `state`.
    this.#ready.catch(() => {});
    this.#exited = new Promise((resolve) => worker.once('exit', () => resolve()));
    worker.on('message', (message: WorkerMessage) => this.#receive(message));
    worker.on('error', (error) =>
      this.#fail(new Error(`The engine's thread failed: ${error.message}`, { cause: error })),
    );
    worker.on('exit', (code) => this.#fail(new Error(`The engine's thread ended unexpectedly with code ${code}.`)));
  }

  get state(): EngineState {
    return this.#state;
  }

  get info(): EngineInfo | undefined {
    return this.#info;
  }

  get stats(): EngineStats | undefined {
    return this.#stats;
  }

  get stepDueSince(): Seconds | undefined {
    if (this.#state !== 'ready' || this.#streams.size === 0) return undefined;
    return Math.max(this.#busySince, this.#stats?.time ?? 0);
  }

  ready(): Promise<EngineInfo> {
    return this.#ready;
  }

  /** The request is sent at the first `next`. While the model loads, it waits. */
  generate(request: NewRequest, signal?: AbortSignal): RequestStream {
    const id = this.#nextId++;
    const arrival = now();
    const abort = () => stream.abort();
    const start = () => {
      if (this.#state !== 'loading' && this.#state !== 'ready') {
        stream.fail(new EngineError('closed', 'The engine is not running.'));
        return;
      }
      if (signal?.aborted) {
        stream.abort();
        return;
      }
      signal?.addEventListener('abort', abort, { once: true });
      if (this.#streams.size === 0) this.#busySince = arrival;
      this.#streams.set(id, stream);
      this.#command({ kind: 'generate', request: { ...request, id, arrival } });
    };
    const stream: RequestStream = new RequestStream(
      request.choices,
      start,
      () => {
        if (this.#streams.delete(id)) this.#command({ kind: 'abort', request: id });
      },
      () => signal?.removeEventListener('abort', abort),
    );
    return stream;
  }

  resetPrefixCache(): void {
    this.#command({ kind: 'reset_prefix_cache' });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const failed = this.#state === 'failed';
    if (!failed) {
      this.#state = 'draining';
      const closed = 'The engine is closing.';
      this.#settleReady.reject(new EngineError('closed', closed));
      this.#loseRequests(closed);
      this.#commands = [{ kind: 'shutdown' }];
      this.#flush();
    }
    const timer = setTimeout(() => void this.#worker.terminate(), this.#options.closeTimeout ?? 10_000);
    await this.#exited;
    clearTimeout(timer);
    if (!failed) this.#state = 'closed';
  }

  #receive(message: WorkerMessage): void {
    switch (message.kind) {
      case 'progress':
        this.#options.onProgress?.(message.phase, message.fraction);
        break;
      case 'ready':
        if (this.#state !== 'loading') break;
        this.#info = message.info;
        this.#busySince = now();
        this.#state = 'ready';
        this.#settleReady.resolve(message.info);
        break;
      case 'step':
        this.#stats = message.stats;
        this.#deliver(message.outputs);
        this.#options.onStep?.(message.stats, message.outputs);
        break;
      case 'failed':
        this.#fail(message.user ? new UserError(message.message) : new Error(message.message));
    }
  }

  /** Outputs of requests that were aborted meanwhile are dropped. */
  #deliver(outputs: readonly ChoiceOutput[]): void {
    for (const output of outputs) {
      const stream = this.#streams.get(output.request);
      if (stream === undefined) continue;
      stream.push(output);
      this.#flushes.add(stream);
      if (!stream.ended) continue;
      this.#streams.delete(output.request);
      // An error of one choice ends the request; the engine is to stop the others.
      if (output.error !== undefined) this.#command({ kind: 'abort', request: output.request });
    }
  }

  #command(command: Command): void {
    if (this.#state !== 'loading' && this.#state !== 'ready') return;
    this.#commands.push(command);
    if (this.#commands.length === 1) setImmediate(() => this.#flush());
  }

  #flush(): void {
    if (this.#commands.length === 0) return;
    this.#worker.postMessage({ commands: this.#commands });
    this.#commands = [];
  }

  /** The thread is gone or going, uncalled for. */
  #fail(error: Error): void {
    if (this.#state === 'failed' || this.#state === 'draining' || this.#state === 'closed') return;
    this.#state = 'failed';
    this.#settleReady.reject(error);
    this.#loseRequests(error.message);
    this.#options.onFailure?.(error);
  }

  #loseRequests(message: string): void {
    const streams = [...this.#streams.values()];
    this.#streams.clear();
    for (const stream of streams) stream.fail(new EngineError('closed', message));
  }
}
