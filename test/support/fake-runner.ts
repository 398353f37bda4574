/**
 * A model whose every logit depends on all the slots it should read. A slot holds a digest of the token, its position and
 * the history before it; a row's logits are a function of all slots of its sequence, read through the block table. A wrong
 * block, a lost token or a stale slot changes everything that follows.
 */
import type { ModelRunner, StepBatch, StepLogits } from '../../src/model/runner.js';

/** How a step goes wrong: before anything is written, or after its new slots got nonsense. */
export type StepFailure = 'before' | 'garbage';

export interface FakeRunnerOptions {
  readonly vocabSize?: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly maxNumBatchedTokens?: number;
  /** Asked before each step, numbered from 0. */
  readonly fails?: (step: number, batch: StepBatch) => StepFailure | undefined;
  /** May change the logits of a row, e.g. to NaN. */
  readonly spoil?: (row: Float32Array, step: number, index: number) => void;
}

export class FakeRunner implements ModelRunner {
  readonly device = 'cpu';
  readonly mixedSteps = true;
  readonly description = 'fake';
  readonly vocabSize: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly kvCacheBytes: number;
  /** What was wrong with the batches, in words; a test expects none. */
  readonly violations: string[] = [];
  steps = 0;
  disposed = false;
  readonly #options: FakeRunnerOptions;
  readonly #slots: Uint32Array;

  constructor(options: FakeRunnerOptions) {
    this.#options = options;
    this.vocabSize = options.vocabSize ?? 32;
    this.blockSize = options.blockSize;
    this.numBlocks = options.numBlocks;
    this.#slots = new Uint32Array(options.blockSize * options.numBlocks);
    this.kvCacheBytes = this.#slots.byteLength;
  }

  async run(batch: StepBatch): Promise<StepLogits> {
    const step = this.steps++;
    this.#inspect(batch);
    const failure = this.#options.fails?.(step, batch);
    if (failure === 'before') throw new Error(`step ${step} was to fail`);
    const contexts = this.#compute(batch, failure === 'garbage');
    if (failure === 'garbage') throw new Error(`step ${step} was to fail after writing`);
    const values = new Float32Array(batch.logitRows.length * this.vocabSize);
    batch.logitRows.forEach((row, index) => {
      const logits = values.subarray(index * this.vocabSize, (index + 1) * this.vocabSize);
      logits.set(logitsOf(contexts[row]!, this.vocabSize));
      this.#options.spoil?.(logits, step, index);
    });
    return { vocabSize: this.vocabSize, values };
  }

  async copyBlocks(source: Int32Array, target: Int32Array): Promise<void> {
    source.forEach((from, i) => {
      const start = from * this.blockSize;
      this.#slots.copyWithin(target[i]! * this.blockSize, start, start + this.blockSize);
    });
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  /** The digest of the history at each row. */
  #compute(batch: StepBatch, garbage: boolean): Uint32Array {
    const contexts = new Uint32Array(batch.tokens.length);
    for (let b = 0; b < batch.pastLengths.length; b++) {
      let context = 0;
      for (let p = 0; p < batch.pastLengths[b]!; p++) context = mix(context, this.#slots[this.#slot(batch, b, p)]!);
      for (let row = batch.cumulativeLengths[b]!; row < batch.cumulativeLengths[b + 1]!; row++) {
        const position = batch.pastLengths[b]! + row - batch.cumulativeLengths[b]!;
        const content = slotContent(batch.tokens[row]!, position, context);
        this.#slots[this.#slot(batch, b, position)] = garbage ? ~content : content;
        context = mix(context, content);
        contexts[row] = context;
      }
    }
    return contexts;
  }

  #slot(batch: StepBatch, sequence: number, position: number): number {
    const block = batch.blockTables[sequence * batch.maxBlocks + Math.floor(position / this.blockSize)]!;
    return block * this.blockSize + (position % this.blockSize);
  }

  #inspect(batch: StepBatch): void {
    const { tokens, cumulativeLengths, pastLengths, blockTables, maxBlocks, logitRows } = batch;
    const expect = (holds: boolean, fault: string) => {
      if (!holds) this.violations.push(`step ${this.steps - 1}: ${fault}`);
    };
    const sequences = pastLengths.length;
    expect(tokens.length > 0, 'no rows');
    expect(tokens.length <= (this.#options.maxNumBatchedTokens ?? Number.POSITIVE_INFINITY), 'over the token budget');
    expect(cumulativeLengths.length === sequences + 1, 'cumulativeLengths has the wrong length');
    expect(blockTables.length === sequences * maxBlocks, 'blockTables has the wrong shape');
    expect(cumulativeLengths[0] === 0 && cumulativeLengths[sequences] === tokens.length, 'rows do not add up');
    expect(
      logitRows.every((row, i) => row < tokens.length && row > (i === 0 ? -1 : logitRows[i - 1]!)),
      'logit rows do not rise',
    );
    expect(
      tokens.every((token) => token >= 0 && token < this.vocabSize),
      'a token is outside the vocabulary',
    );
    const owners = new Map<number, number>();
    const readers = new Map<number, number>();
    for (let b = 0; b < sequences; b++) {
      const count = cumulativeLengths[b + 1]! - cumulativeLengths[b]!;
      expect(count > 0, 'a sequence has no rows');
      const blocks = Math.ceil((pastLengths[b]! + count) / this.blockSize);
      expect(blocks <= maxBlocks, 'a block table is too short');
      for (let i = 0; i < blocks; i++) {
        const block = blockTables[b * maxBlocks + i]!;
        expect(block >= 0 && block < this.numBlocks, 'a block is outside the pool');
        const written = (i + 1) * this.blockSize > pastLengths[b]!;
        if (written) expect(!owners.has(block), `block ${block} is written by two sequences`);
        if (written) owners.set(block, b);
        readers.set(block, (readers.get(block) ?? 0) + 1);
      }
    }
    for (const block of owners.keys()) expect(readers.get(block) === 1, `block ${block} is written while shared`);
  }
}

/** Logits that the fake model gives after these tokens; f32 [vocabSize]. */
export function fakeLogits(tokens: Iterable<number>, vocabSize = 32): Float32Array {
  let context = 0;
  let position = 0;
  for (const token of tokens) context = mix(context, slotContent(token, position++, context));
  return logitsOf(context, vocabSize);
}

/** Tokens that the fake model continues a prompt with when the likeliest is always taken. */
export function fakeGreedy(prompt: ArrayLike<number>, count: number, vocabSize = 32): number[] {
  const tokens = Array.from(prompt);
  while (tokens.length < prompt.length + count) {
    const logits = fakeLogits(tokens, vocabSize);
    tokens.push(logits.indexOf(Math.max(...logits)));
  }
  return tokens.slice(prompt.length);
}

function slotContent(token: number, position: number, context: number): number {
  return mix(mix(context, token + 1), position + 1);
}

function logitsOf(context: number, vocabSize: number): Float32Array {
  return Float32Array.from({ length: vocabSize }, (_, i) => (mix(context, i + 1) / 2 ** 32) * 8 - 4);
}

/** Folds a number into a digest: the finalizer of MurmurHash3. */
function mix(digest: number, value: number): number {
  let h = (Math.imul(digest ^ 0x9e3779b9, 0x85ebca6b) + Math.imul(value, 0xcc9e2d51)) | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
