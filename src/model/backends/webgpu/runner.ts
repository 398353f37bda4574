/** Runs the paged graph step by step on the WebGPU provider; its keys and values stay on the device. */
import { InferenceSession, type OnnxValue, type Tensor } from 'onnxruntime-node';
import { fromFloat16 } from '../../float16.js';
import type { ModelRunner, StepBatch, StepLogits } from '../../runner.js';
import { type CacheShape, DeviceCache } from './cache.js';
import { LogitsNotFiniteError, stepError } from './faults.js';
import { INPUTS, LOGITS } from './names.js';
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

export class WebGpuRunner implements ModelRunner {
  readonly device = 'webgpu';
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
    const { feeds, entryOfLogits } = buildStepInputs(batch, this.#rules, this.#takesLogitRows);
    if (this.#windows.length > 0) Object.assign(feeds, windowFeeds(batch, this.blockSize, this.#windows));
    const fetches: Record<string, OnnxValue | null> = { ...this.cache.present, [LOGITS]: null };
    const outputs = await this.#execute({ ...feeds, ...this.cache.past }, fetches);
    // Each run wraps the cache tensors anew; the wrappers would hold on to the device until they are collected.
    for (const name of this.#presentNames) (outputs[name] as Tensor).dispose();
    const logits = float32(outputs[LOGITS] as Tensor);
    checkLogits(logits, this.vocabSize, this.description);
    const rows = batch.logitRows.length;
    if (rows === 0) return { vocabSize: this.vocabSize, values: new Float32Array(0) };
    if (this.#takesLogitRows) return { vocabSize: this.vocabSize, values: logits };
    return {
      vocabSize: this.vocabSize,
      values: this.#pick(logits, this.#rules.endAtLogits ? entryOfLogits : batch.logitRows),
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

  #pick(logits: Float32Array, rows: ArrayLike<number>): Float32Array {
    const picked = new Float32Array(rows.length * this.vocabSize);
    for (let i = 0; i < rows.length; i++) {
      const start = rows[i]! * this.vocabSize;
      picked.set(logits.subarray(start, start + this.vocabSize), i * this.vocabSize);
    }
    return picked;
  }
}

/**
 * An overflow makes a whole row not finite, since norms and products spread it: one element of each tells. A device that
 * is lost or out of memory may fail to run the kernels without an error: then what is downloaded is zeros.
 */
function checkLogits(logits: Float32Array, vocabSize: number, device: string): void {
  for (let row = 0; row < logits.length; row += vocabSize) {
    if (!Number.isFinite(logits[row])) throw new LogitsNotFiniteError();
    if (logits[row] === 0 && logits.subarray(row, row + vocabSize).every((x) => x === 0)) {
      throw stepError(new Error('device lost or out of memory: it returned nothing but zeros'), device);
    }
  }
}

function float32(tensor: Tensor): Float32Array {
  if (tensor.type === 'float16') return fromFloat16(tensor.data as unknown as Uint16Array);
  return tensor.data as Float32Array;
}
