/** Runs the CPU graph step by step over its paged pool. */
import { availableParallelism } from 'node:os';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import type { Architecture } from '../../architecture.js';
import type { ModelRunner, StepBatch, StepLogits } from '../../runner.js';
import { type CacheType, cacheInputs } from './attention.js';
import { chunkSize, LOGIT_OUTPUTS } from './logits.js';
import { type CacheArray, CachePool } from './pool.js';
import { OUTPUTS } from './rows.js';
import { StepInputBuilder } from './step-inputs.js';

const NO_LOGITS = new Float32Array(0);
const REDUCED_OUTPUTS = [OUTPUTS.present, LOGIT_OUTPUTS.likeliest, LOGIT_OUTPUTS.likeliestLogits];
const ALL_OUTPUTS = [...REDUCED_OUTPUTS, LOGIT_OUTPUTS.values, LOGIT_OUTPUTS.maxima, LOGIT_OUTPUTS.masses];

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
}

export class CpuRunner implements ModelRunner {
  readonly device = 'cpu';
  readonly #inputs: StepInputBuilder;
  #cacheFeeds: Record<string, Tensor>;

  private constructor(
    private readonly session: InferenceSession,
    private readonly pool: CachePool,
    private readonly architecture: Architecture,
    readonly description: string,
  ) {
    this.#inputs = new StepInputBuilder(pool.shape.blockSize, architecture);
    this.#cacheFeeds = cacheFeeds(pool);
  }

  static async create(options: CpuRunnerOptions): Promise<CpuRunner> {
    const { architecture, blockSize } = options;
    const threads = options.threads > 0 ? options.threads : availableParallelism();
    const shape = {
      layers: architecture.layers.length,
      kvHeads: architecture.numKvHeads,
      headSize: architecture.headSize,
      blockSize,
      type: options.cacheType,
    };
    const pool = CachePool.ofBytes(options.kvCacheMemory, shape);
    const session = await InferenceSession.create(options.modelFile, {
      executionProviders: ['cpu'],
      intraOpNumThreads: threads,
      interOpNumThreads: 1,
      executionMode: 'sequential',
      graphOptimizationLevel: 'all',
      // Shapes change every step; patterns would be kept for each of them.
      enableMemPattern: false,
      // Between the parallel parts of a step the second thread waits awake, and no longer than that.
      extra: { session: { intra_op: { spin_duration_us: '2000', spin_backoff_max: '1' } } },
      logSeverityLevel: 3,
    });
    const description = `ONNX Runtime on the CPU, ${threads} thread${threads === 1 ? '' : 's'}`;
    return new CpuRunner(session, pool, architecture, description);
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

  async run(batch: StepBatch): Promise<StepLogits> {
    const { feeds, slots, wholeRows } = this.#inputs.build(batch);
    const fetches = wholeRows > 0 ? ALL_OUTPUTS : REDUCED_OUTPUTS;
    const outputs = await this.session.run({ ...feeds, ...this.#cacheFeeds }, fetches);
    // Written only now: a step that failed has touched nothing.
    this.pool.write(outputs[OUTPUTS.present]?.data as CacheArray, slots);
    const { vocabSize } = this;
    const floats = (name: string) => outputs[name]?.data as Float32Array;
    return {
      vocabSize,
      values: wholeRows > 0 ? floats(LOGIT_OUTPUTS.values) : NO_LOGITS,
      ...(batch.greedyRows !== undefined && {
        likeliest: {
          tokens: Int32Array.from(outputs[LOGIT_OUTPUTS.likeliest]?.data as BigInt64Array, Number),
          logits: floats(LOGIT_OUTPUTS.likeliestLogits),
        },
      }),
      ...(wholeRows > 0 && {
        summaries: {
          chunkSize: chunkSize(vocabSize),
          chunks: vocabSize / chunkSize(vocabSize),
          maxima: floats(LOGIT_OUTPUTS.maxima),
          masses: floats(LOGIT_OUTPUTS.masses),
        },
      }),
    };
  }

  async copyBlocks(source: Int32Array, target: Int32Array): Promise<void> {
    this.pool.copyPages(
      source.map((block) => block + 1),
      target.map((block) => block + 1),
    );
  }

  async dispose(): Promise<void> {
    await this.session.release();
    this.#cacheFeeds = {};
  }
}

function cacheFeeds({ keys, values, shape }: CachePool): Record<string, Tensor> {
  const { kvHeads, blockSize, headSize, type } = shape;
  const width = blockSize * headSize;
  const feeds: Record<string, Tensor> = {};
  for (let layer = 0; layer < shape.layers; layer++) {
    const names = cacheInputs(layer);
    const rows = (shape.numBlocks + 1) * kvHeads;
    feeds[names.key] = new Tensor(type, keys[layer] as CacheArray, [rows, width]);
    feeds[names.value] = new Tensor(type, values[layer] as CacheArray, [rows, width]);
  }
  return feeds;
}
