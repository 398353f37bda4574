/** Runs the paged graph step by step on the WebGPU provider; its keys and values stay on the device. */
import { InferenceSession, type OnnxValue, type Tensor } from 'onnxruntime-node';
import { fromFloat16 } from '../../float16.js';
import type { Likeliest, ModelRunner, StepBatch, StepLogits } from '../../runner.js';
import { type CacheShape, DeviceCache } from './cache.js';
import { stepError } from './faults.js';
import { readLikeliest, readSummaries } from './logits.js';
import { INPUTS, OUTPUTS } from './names.js';
import { webgpuSessionOptions } from './session.js';
import { buildStepInputs, type EntryRules } from './step-inputs.js';
import { windowFeeds } from './windows.js';

export interface WebGpuRunnerOptions {
  /** Path of the ONNX model. */
  readonly modelFile: string;
  readonly vocabSize: number;
  readonly cache: CacheShape;
  /** One line for people. */
  readonly description: string;
  /**
   * Rows that one sequence may have in a step without being split; Infinity but for drivers whose kernels for long
   * queries are wrong.
   */
  readonly maxRowsPerEntry: number;
  /** Sizes of the sliding windows that the graph repacks; see `windows.ts`. */
  readonly repackedWindows?: readonly number[];
  /** Whether the graph gives the logits of only the last row of each sequence of its batch. */
  readonly prunedLogits?: boolean;
}

const WHOLE_OUTPUTS = [OUTPUTS.logits, OUTPUTS.chunkMaxima, OUTPUTS.chunkMasses];
const LIKELIEST_OUTPUTS = [OUTPUTS.likeliestChunk, OUTPUTS.likeliestPlace, OUTPUTS.likeliestLogits];

export class WebGpuRunner implements ModelRunner {
  readonly device = 'webgpu';
  readonly mixedSteps = true;
  readonly description: string;
  readonly vocabSize: number;
  readonly #takesLogitRows: boolean;
  readonly #windows: readonly number[];
  readonly #presentNames: readonly string[];
  readonly #rules: EntryRules;

  private constructor(
    private readonly session: InferenceSession,
    private readonly cache: DeviceCache,
    options: WebGpuRunnerOptions,
  ) {
    this.description = options.description;
    this.vocabSize = options.vocabSize;
    this.#takesLogitRows = session.inputNames.includes(INPUTS.logitRows);
    this.#windows = options.repackedWindows ?? [];
    this.#presentNames = Object.keys(cache.present);
    this.#rules = { maxRows: options.maxRowsPerEntry, endAtLogits: options.prunedLogits ?? false };
  }

  static async create(options: WebGpuRunnerOptions): Promise<WebGpuRunner> {
    const session = await InferenceSession.create(options.modelFile, webgpuSessionOptions());
    try {
      return new WebGpuRunner(session, await DeviceCache.create(options.cache), options);
    } catch (error) {
      await session.release();
      throw error;
    }
  }

  get blockSize(): number {
    return this.cache.shape.blockSize;
  }

  get numBlocks(): number {
    return this.cache.shape.numBlocks;
  }

  get kvCacheBytes(): number {
    return this.cache.bytes;
  }

  async run(batch: StepBatch): Promise<StepLogits> {
    const { feeds, entryOfLogits, wholeRows } = buildStepInputs(batch, this.#rules, this.#takesLogitRows);
    if (this.#windows.length > 0) Object.assign(feeds, windowFeeds(batch, this.blockSize, this.#windows));
    const reduces = this.#takesLogitRows;
    const fetches: Record<string, OnnxValue | null> = { ...this.cache.present };
    // What is not fetched never leaves the device.
    if (!reduces) fetches[OUTPUTS.logits] = null;
    else if (wholeRows > 0) for (const name of WHOLE_OUTPUTS) fetches[name] = null;
    if (reduces && batch.greedyRows !== undefined) for (const name of LIKELIEST_OUTPUTS) fetches[name] = null;
    const outputs = (await this.#execute({ ...feeds, ...this.cache.past }, fetches)) as Record<string, Tensor>;
    // Each run wraps the cache tensors anew; the wrappers would hold on to the device until they are collected.
    for (const name of this.#presentNames) outputs[name]!.dispose();

    const { vocabSize } = this;
    if (batch.logitRows.length === 0) return { vocabSize, values: new Float32Array(0) };
    if (!reduces) {
      const rows = this.#rules.endAtLogits ? entryOfLogits : batch.logitRows;
      return { vocabSize, values: this.#pick(this.#alive(float32(outputs[OUTPUTS.logits]!)), rows) };
    }
    return {
      vocabSize,
      values: wholeRows > 0 ? this.#alive(float32(outputs[OUTPUTS.logits]!)) : new Float32Array(0),
      ...(wholeRows > 0 && { summaries: readSummaries(outputs, vocabSize) }),
      ...(batch.greedyRows !== undefined && { likeliest: this.#someAlive(readLikeliest(outputs, vocabSize)) }),
    };
  }

  async #execute(
    feeds: Record<string, Tensor>,
    fetches: Record<string, OnnxValue | null>,
  ): Promise<InferenceSession.OnnxValueMapType> {
    try {
      return await this.session.run(feeds, fetches);
    } catch (error) {
      throw stepError(error, this.description);
    }
  }

  copyBlocks(source: Int32Array, target: Int32Array): Promise<void> {
    return this.cache.copyBlocks(source, target);
  }

  async dispose(): Promise<void> {
    await this.cache.dispose();
    await this.session.release();
  }

  /**
   * A device that is lost or out of memory may fail to run the kernels without an error: then what is downloaded is zeros.
   */
  #alive(logits: Float32Array): Float32Array {
    if (logits.every((x) => x === 0)) throw this.#silentLoss();
    return logits;
  }

  #someAlive(likeliest: Likeliest): Likeliest {
    const { logits, tokens } = likeliest;
    if (logits.every((x, row) => x === 0 && tokens[row] === 0)) throw this.#silentLoss();
    return likeliest;
  }

  #silentLoss(): unknown {
    return stepError(new Error('device lost or out of memory: it returned nothing but zeros'), this.description);
  }

  #pick(logits: Float32Array, rows: ArrayLike<number>): Float32Array {
    const picked = new Float32Array(rows.length * this.vocabSize);
    for (let i = 0; i < rows.length; i++) {
      const start = rows[i]! * this.vocabSize;
      picked.set(logits.subarray(start, start + this.vocabSize), i * this.vocabSize);
    }
    return picked;
  }
}

function float32(tensor: Tensor): Float32Array {
  if (tensor.type === 'float16') return fromFloat16(tensor.data as unknown as Uint16Array);
  return tensor.data as Float32Array;
}
