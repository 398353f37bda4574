/** Sequences driven straight on a runner: who has how many tokens, and where their blocks lie. */
import type { ModelRunner, StepBatch, StepLogits } from '../../src/model/runner.js';

/** New tokens of one sequence in a step. */
export interface Chunk {
  /** Which of the sequences, from 0. */
  readonly sequence: number;
  readonly tokens: ArrayLike<number>;
  /** Which of the chunk's rows give logits. */
  readonly logits: 'all' | 'last' | 'none';
}

export class Sequences {
  readonly pasts: Int32Array;
  readonly #blocksEach: number;

  /** Room for `count` sequences of `longest` tokens. Blocks of the sequences alternate, as they do in a busy pool. */
  constructor(
    readonly runner: ModelRunner,
    readonly count: number,
    longest: number,
  ) {
    this.pasts = new Int32Array(count);
    this.#blocksEach = Math.ceil(longest / runner.blockSize);
    if (count * this.#blocksEach > runner.numBlocks) {
      throw new Error(`${count} sequences of ${longest} tokens do not fit a pool of ${runner.numBlocks} blocks`);
    }
  }

  blockOf(sequence: number, index: number): number {
    return index * this.count + sequence;
  }

  /** Runs a step and moves the sequences on. Logits are those of the rows asked for, in the order of the chunks. */
  async run(chunks: readonly Chunk[]): Promise<StepLogits> {
    const logits = await this.runner.run(this.batch(chunks));
    for (const { sequence, tokens } of chunks) this.pasts[sequence]! += tokens.length;
    return logits;
  }

  batch(chunks: readonly Chunk[]): StepBatch {
    const cumulativeLengths = new Int32Array(chunks.length + 1);
    const blockTables = new Int32Array(chunks.length * this.#blocksEach);
    const tokens: number[] = [];
    const logitRows: number[] = [];
    for (const [b, chunk] of chunks.entries()) {
      const end = this.pasts[chunk.sequence]! + chunk.tokens.length;
      for (let i = 0; i * this.runner.blockSize < end; i++) {
        blockTables[b * this.#blocksEach + i] = this.blockOf(chunk.sequence, i);
      }
      for (let i = 0; i < chunk.tokens.length; i++) {
        if (chunk.logits === 'all' || (chunk.logits === 'last' && i === chunk.tokens.length - 1)) {
          logitRows.push(tokens.length);
        }
        tokens.push(chunk.tokens[i]!);
      }
      cumulativeLengths[b + 1] = tokens.length;
    }
    return {
      tokens: Int32Array.from(tokens),
      cumulativeLengths,
      pastLengths: Int32Array.from(chunks, ({ sequence }) => this.pasts[sequence]!),
      blockTables,
      maxBlocks: this.#blocksEach,
      logitRows: Int32Array.from(logitRows),
    };
  }
}

export function argmax(row: Float32Array): number {
  let best = 0;
  for (let i = 1; i < row.length; i++) if (row[i]! > row[best]!) best = i;
  return best;
}
