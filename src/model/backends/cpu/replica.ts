/** One copy of the CPU graph over the paged pool. */
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import type { Architecture } from '../../architecture.js';
import type { StepBatch, StepLogits } from '../../runner.js';
import { chunkSize, LOGIT_OUTPUTS } from './logits.js';
import { cacheInputs, FIRST_PAGES, LAYERS_PER_INPUT, STORED } from './page-names.js';
import type { CacheArray, CachePool } from './pool.js';
import { createSession } from './session.js';
import { StepInputBuilder } from './step-inputs.js';

const NO_LOGITS = new Float32Array(0);
const REDUCED_LOGITS = [LOGIT_OUTPUTS.likeliest, LOGIT_OUTPUTS.likeliestLogits];
const ALL_LOGITS = [...REDUCED_LOGITS, LOGIT_OUTPUTS.values, LOGIT_OUTPUTS.maxima, LOGIT_OUTPUTS.masses];

/** Computes steps, or shares of them, as `ModelRunner.run` does. */
export interface Replica {
  run(batch: StepBatch): Promise<StepLogits>;
  dispose(): Promise<void>;
}

/** A session in this thread. It blocks the thread while it runs. */
export class LocalReplica implements Replica {
  readonly #inputs: StepInputBuilder;
  readonly #stored: readonly string[];
  #cacheFeeds: Record<string, Tensor>;

  private constructor(
    private readonly session: InferenceSession,
    private readonly pool: CachePool,
    private readonly architecture: Architecture,
  ) {
    this.#inputs = new StepInputBuilder(pool.shape.blockSize, architecture);
    this.#stored = pool.scales.length > 0 ? [STORED.rows, STORED.scales] : [STORED.rows];
    this.#cacheFeeds = cacheFeeds(pool);
  }

  /** @param arena whether it keeps the memory of its largest step */
  static async create(
    modelFile: string,
    architecture: Architecture,
    pool: CachePool,
    threads: number,
    arena: boolean,
  ): Promise<LocalReplica> {
    return new LocalReplica(await createSession(modelFile, threads, arena), pool, architecture);
  }

  async run(batch: StepBatch): Promise<StepLogits> {
    const { feeds, slots, wholeRows } = this.#inputs.build(batch);
    const logits = wholeRows > 0 ? ALL_LOGITS : REDUCED_LOGITS;
    const outputs = await this.session.run({ ...feeds, ...this.#cacheFeeds }, [...this.#stored, ...logits]);
    // Written only now: a step that failed has touched nothing.
    const rows = outputs[STORED.rows]?.data as CacheArray;
    this.pool.write({ rows, scales: outputs[STORED.scales]?.data as Float32Array | undefined }, slots);
    const { vocabSize } = this.architecture;
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

  async dispose(): Promise<void> {
    await this.session.release();
    this.#cacheFeeds = {};
  }
}

function cacheFeeds({ inputs, shape }: CachePool): Record<string, Tensor> {
  const { layers, numBlocks, kvHeads, headSize, blockSize, type } = shape;
  const pages = numBlocks + 1;
  const first = Int32Array.from({ length: layers }, (_, layer) => (layer % LAYERS_PER_INPUT) * pages);
  const feeds: Record<string, Tensor> = { [FIRST_PAGES]: new Tensor('int32', first, [layers]) };
  inputs.forEach((input, i) => {
    const names = cacheInputs(i * LAYERS_PER_INPUT);
    const all = input.layers * pages;
    // Floats are gathered head by head, integers page by page.
    const rows = [all * kvHeads, blockSize * headSize];
    feeds[names.key] = new Tensor(type, input.keys, type === 'int8' ? [all, kvHeads, headSize, blockSize] : rows);
    feeds[names.value] = new Tensor(type, input.values, type === 'int8' ? [all, kvHeads, blockSize, headSize] : rows);
    const { scales } = input;
    if (scales !== undefined) feeds[names.scale] = new Tensor('float32', scales, [all, 2 * kvHeads, 1, blockSize]);
  });
  return feeds;
}
