/** A replica in a thread of its own, as the engine's thread sees it. */
import { Worker } from 'node:worker_threads';
import { compiledScript } from '../../../compiled.js';
import type { Architecture } from '../../architecture.js';
import { RunnerLostError, type StepBatch, type StepLogits } from '../../runner.js';
import type { CachePool, PoolShape } from './pool.js';
import type { Replica } from './replica.js';

/** What the thread is started with. */
export interface ReplicaData {
  readonly modelFile: string;
  readonly architecture: Architecture;
  readonly shape: PoolShape;
  readonly memory: SharedArrayBuffer;
  readonly threads: number;
}

/** A share of a step; undefined ends the thread. */
export type ReplicaCommand = StepBatch | undefined;

/** First comes `ready` when the session is there, or `failed` when it cannot be; then each share gets one answer. */
export type ReplicaMessage =
  | { readonly kind: 'ready' }
  | { readonly kind: 'computed'; readonly logits: StepLogits }
  | { readonly kind: 'failed'; readonly message: string };

/** What a step leaves behind is little; V8 would let it pile up to 48 MiB. */
const LIMITS = { maxYoungGenerationSizeMb: 3 };

/** Keeps this thread alive only while it owes an answer. */
export class ThreadReplica implements Replica {
  readonly #worker: Worker;
  readonly #ready: Promise<void>;
  readonly #exited: Promise<void>;
  #settle: { resolve: (message: ReplicaMessage) => void; reject: (error: Error) => void } | undefined;
  #lost: Error | undefined;
  #isReady = false;
  #ending = false;

  /**
   * Starts the thread; it loads its session meanwhile.
   * @param script the thread's, if not the replica's own
   */
  constructor(
    modelFile: string,
    architecture: Architecture,
    pool: CachePool,
    threads: number,
    script = compiledScript('./replica-worker.js', import.meta.url),
  ) {
    const { shape, memory } = pool;
    const workerData: ReplicaData = { modelFile, architecture, shape, memory, threads };
    this.#worker = new Worker(script, { workerData, name: 'replica', resourceLimits: LIMITS });
    this.#worker.on('message', (message: ReplicaMessage) => this.#answered()?.resolve(message));
    this.#worker.on('messageerror', (error) => this.#lose(error.message));
    this.#worker.on('error', (error) => this.#lose(error.message));
    this.#exited = new Promise((resolve) => this.#worker.once('exit', () => resolve()));
    this.#worker.once('exit', (code) => this.#lose(`it ended with code ${code}`));
    this.#ready = this.#answer().then((message) => {
      if (message.kind === 'failed') throw new Error(message.message);
      this.#isReady = true;
    });
    // Whoever does not wait for it learns of a failure at the first step.
    this.#ready.catch(() => {});
  }

  /** Resolves once it can compute; rejects when its session could not be made. */
  ready(): Promise<void> {
    return this.#ready;
  }

  /** @throws RunnerLostError when the thread is gone */
  async run(batch: StepBatch): Promise<StepLogits> {
    // No await once it is ready: the share is to leave before the caller turns to its own.
    if (!this.#isReady) await this.#ready;
    const answer = this.#answer();
    this.#worker.postMessage(batch satisfies ReplicaCommand);
    const message = await answer;
    if (message.kind === 'computed') return message.logits;
    throw new Error(message.kind === 'failed' ? message.message : 'a replica answered out of turn');
  }

  async dispose(): Promise<void> {
    this.#ending = true;
    this.#worker.ref();
    this.#worker.postMessage(undefined satisfies ReplicaCommand);
    await this.#exited;
  }

  #answer(): Promise<ReplicaMessage> {
    return new Promise((resolve, reject) => {
      if (this.#lost) {
        reject(this.#lost);
        return;
      }
      this.#worker.ref();
      this.#settle = { resolve, reject };
    });
  }

  #answered() {
    if (!this.#ending) this.#worker.unref();
    const settle = this.#settle;
    this.#settle = undefined;
    return settle;
  }

  #lose(reason: string): void {
    this.#lost ??= new RunnerLostError(`A thread of the model is lost: ${reason}.`);
    this.#answered()?.reject(this.#lost);
  }
}
