/**
 * Runs the CPU graph step by step over its paged pool. A step is computed by all threads together, or divided between
 * replicas of the model with a share of the threads each: what threads compute together passes from one core's cache to
 * another's after every node, and with many rows that costs more than reading the weights several times.
 */
import { availableParallelism } from 'node:os';
import type { KvCacheDtype } from '../../../engine/protocol.js';
import type { Architecture } from '../../architecture.js';
import { type ModelRunner, RunnerLostError, type StepBatch, type StepLogits } from '../../runner.js';
import { divide, type Share } from './divide.js';
import { HeapTrimmer } from './heap.js';
import { LogitsJoiner } from './join.js';
import { Pace } from './pace.js';
import { CachePool } from './pool.js';
import { LocalReplica, type Replica } from './replica.js';
import { ThreadReplica } from './replica-client.js';

export interface CpuRunnerOptions {
  /** Path of the prepared ONNX model. */
  readonly modelFile: string;
  readonly architecture: Architecture;
  readonly blockSize: number;
  readonly cacheType: KvCacheDtype;
  /** Bytes of the paged cache. */
  readonly kvCacheMemory: number;
  /** 0 takes one thread a core. */
  readonly threads: number;
  /** Replicas that steps are divided between, at most one a thread; 1 divides none, 0 takes as many as are known to pay. */
  readonly replicas: number;
}

/** Of more threads it is not known whether they gain from a replica each. */
const MOST_THREADS_WITH_REPLICAS = 4;

export class CpuRunner implements ModelRunner {
  readonly device = 'cpu';
  /** One of each takes a little longer, but the first token is there sooner (docs/scheduling.md). */
  readonly mixedSteps = false;
  readonly #heap = new HeapTrimmer();
  readonly #joiner = new LogitsJoiner();
  /** Rows of prompts and of decodes cost differently beside each other in each way. */
  readonly #paces = { decodes: new Pace(), prefills: new Pace() };

  private constructor(
    private readonly pool: CachePool,
    private readonly architecture: Architecture,
    private readonly whole: Replica,
    /** None, or at least two; this thread's own is the first. */
    private readonly replicas: readonly Replica[],
    readonly description: string,
  ) {}

  static async create(options: CpuRunnerOptions): Promise<CpuRunner> {
    const { architecture, modelFile } = options;
    const threads = options.threads > 0 ? options.threads : availableParallelism();
    const count = replicaCount(options.replicas, threads);
    const pool = CachePool.ofBytes(options.kvCacheMemory, {
      layers: architecture.layers.length,
      kvHeads: architecture.numKvHeads,
      headSize: architecture.headSize,
      blockSize: options.blockSize,
      type: options.cacheType,
    });
    const opened: Replica[] = [];
    try {
      // Only the session of whole steps keeps memory: each of them would keep as much.
      const own = async (of: number, arena: boolean) => {
        const replica = await LocalReplica.create(modelFile, architecture, pool, of, arena);
        opened.push(replica);
        return replica;
      };
      const [first = 1, ...rest] = shareThreads(threads, count);
      const others = rest.map((of) => {
        const replica = new ThreadReplica(modelFile, architecture, pool, of);
        opened.push(replica);
        return replica;
      });
      // The others load while this thread does.
      const whole = await own(threads, true);
      const replicas = others.length === 0 ? [] : [await own(first, false), ...others];
      await Promise.all(others.map((replica) => replica.ready()));
      return new CpuRunner(pool, architecture, whole, replicas, describe(threads, count));
    } catch (error) {
      await Promise.all(opened.map((replica) => replica.dispose()));
      throw error;
    }
  }

  get vocabSize(): number {
    return this.architecture.vocabSize;
  }

  get blockSize(): number {
    return this.pool.shape.blockSize;
  }

  get numBlocks(): number {
    return this.pool.shape.numBlocks;
  }

  get kvCacheBytes(): number {
    return this.pool.bytes;
  }

  run(batch: StepBatch): Promise<StepLogits> {
    this.#heap.trim();
    const division = this.replicas.length === 0 ? undefined : divide(batch, this.replicas.length);
    if (division === undefined) return this.whole.run(batch);
    const pace = batch.tokens.length === batch.pastLengths.length ? this.#paces.decodes : this.#paces.prefills;
    return pace.time(pace.choose(division), division, (way) =>
      way === 'whole' ? this.whole.run(batch) : this.#runShares(batch, division.shares()),
    );
  }

  async #runShares(batch: StepBatch, shares: readonly Share[]): Promise<StepLogits> {
    const runs: Promise<StepLogits>[] = [];
    // From the last: the other threads begin before this one does.
    for (let i = shares.length - 1; i >= 0; i--) {
      runs[i] = (this.replicas[i] as Replica).run((shares[i] as Share).batch);
    }
    // None may be under way any more when the step has failed.
    const outcomes = await Promise.allSettled(runs);
    const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []));
    if (failures.length > 0) throw failures.find((failure) => failure instanceof RunnerLostError) ?? failures[0];
    const found = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    return this.#joiner.join(batch, shares, found);
  }

  async copyBlocks(source: Int32Array, target: Int32Array): Promise<void> {
    this.pool.copyPages(
      source.map((block) => block + 1),
      target.map((block) => block + 1),
    );
  }

  async dispose(): Promise<void> {
    await Promise.all([this.whole, ...this.replicas].map((replica) => replica.dispose()));
  }
}

function replicaCount(wanted: number, threads: number): number {
  if (wanted > 0) return Math.min(wanted, threads);
  return threads <= MOST_THREADS_WITH_REPLICAS ? threads : 1;
}

/** Threads of each replica, as even as can be. */
function shareThreads(threads: number, replicas: number): number[] {
  return Array.from({ length: replicas }, (_, i) => Math.floor((threads + i) / replicas));
}

function describe(threads: number, replicas: number): string {
  const text = `ONNX Runtime on the CPU, ${threads} thread${threads === 1 ? '' : 's'}`;
  return replicas === 1 ? text : `${text}, steps of many rows divided between ${replicas} replicas`;
}
