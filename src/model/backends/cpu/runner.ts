/**
 * Runs the CPU graph step by step over its paged pool. A step is computed by all threads together, or divided between
 * replicas of the model with a share of the threads each: what threads compute together passes from one core's cache to
 * another's after every node, and with many rows that costs more than reading the weights several times.
 */
import { availableParallelism } from 'node:os';
import type { Architecture } from '../../architecture.js';
import { type ModelRunner, RunnerLostError, type StepBatch, type StepLogits } from '../../runner.js';
import type { CacheType } from './attention.js';
import { divide, join, type Share } from './divide.js';
import { Pace } from './pace.js';
import { CachePool } from './pool.js';
import { LocalReplica, type Replica } from './replica.js';
import { ThreadReplica } from './replica-thread.js';

export interface CpuRunnerOptions {
  /** Path of the prepared ONNX model. */
  readonly modelFile: string;
  readonly architecture: Architecture;
  readonly blockSize: number;
  readonly cacheType: CacheType;
  /** Bytes of the paged cache. */
  readonly kvCacheMemory: number;
  /** 0 takes one thread a core. */
  readonly threads: number;
  /** Replicas that steps are divided between; 1 divides none, 0 takes one a thread where that is known to pay. */
  readonly replicas: number;
}

/** More threads than these are not known to gain from a replica each. */
const MOST_AUTOMATIC_REPLICAS = 4;

export class CpuRunner implements ModelRunner {
  readonly device = 'cpu';
  readonly #pace = new Pace();

  private constructor(
    private readonly pool: CachePool,
    private readonly architecture: Architecture,
    private readonly whole: Replica,
    /** None, or at least two; this thread's own is the last. */
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
    const load = (of: number) => LocalReplica.create(modelFile, architecture, pool, of);
    const each = Math.floor(threads / count);
    // They load while this thread does.
    const others = Array.from({ length: count - 1 }, () => new ThreadReplica(modelFile, architecture, pool, each));
    try {
      const whole = await load(threads);
      const replicas = count === 1 ? [] : [...others, await load(each)];
      await Promise.all(others.map((replica) => replica.ready()));
      return new CpuRunner(pool, architecture, whole, replicas, describe(threads, count));
    } catch (error) {
      await Promise.all(others.map((replica) => replica.dispose()));
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
    const division = this.replicas.length === 0 ? undefined : divide(batch, this.replicas.length);
    if (division === undefined) return this.whole.run(batch);
    return this.#pace.time(this.#pace.choose(division), division, (way) =>
      way === 'whole' ? this.whole.run(batch) : this.#runShares(batch, division.shares()),
    );
  }

  async #runShares(batch: StepBatch, shares: readonly Share[]): Promise<StepLogits> {
    const runs = shares.map((share, i) => (this.replicas[i] as Replica).run(share.batch));
    // None may be under way any more when the step has failed.
    const outcomes = await Promise.allSettled(runs);
    const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []));
    if (failures.length > 0) throw failures.find((failure) => failure instanceof RunnerLostError) ?? failures[0];
    const found = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    return join(batch, shares, found);
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
  return threads <= MOST_AUTOMATIC_REPLICAS ? threads : 1;
}

function describe(threads: number, replicas: number): string {
  const text = `ONNX Runtime on the CPU, ${threads} thread${threads === 1 ? '' : 's'}`;
  return replicas === 1 ? text : `${text}, steps of many rows divided between ${replicas} replicas`;
}
