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

  /** Room for `count` sequences of `longest` tokens. Blocks of the sequences alternate, as they do in a busy pool. */
  constructor(
    readonly runner: ModelRunner,
    readonly count: number,
    longest: number,
  ) {
    this.pasts = new Int32Array(count);
    if (count * Math.ceil(longest / runner.blockSize) > runner.numBlocks) {
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
    const { blockSize } = this.runner;
    const ends = chunks.map(({ sequence, tokens }) => this.pasts[sequence]! + tokens.length);
    const maxBlocks = Math.ceil(Math.max(...ends) / blockSize);
    const cumulativeLengths = new Int32Array(chunks.length + 1);
    const blockTables = new Int32Array(chunks.length * maxBlocks);
    const tokens: number[] = [];
    const logitRows: number[] = [];
    for (const [b, chunk] of chunks.entries()) {
      for (let i = 0; i * blockSize < ends[b]!; i++) blockTables[b * maxBlocks + i] = this.blockOf(chunk.sequence, i);
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
      maxBlocks,
      logitRows: Int32Array.from(logitRows),
    };
  }
}

export function randomTokens(count: number, vocabSize: number): Int32Array {
  return Int32Array.from({ length: count }, () => Math.floor(Math.random() * vocabSize));
}

/**
 * Puts keys and values of random tokens into the blocks of `count` sequences of `context` tokens. One is computed, the
 * others take copies. A pool that nothing was written to would be one page of zeros in memory, read from the cache.
 */
export async function fillPool(runner: ModelRunner, count: number, context: number): Promise<void> {
  const sequences = new Sequences(runner, count, context);
  await sequences.run([{ sequence: 0, tokens: randomTokens(context, runner.vocabSize), logits: 'none' }]);
  const blocks = Array.from({ length: Math.ceil(context / runner.blockSize) }, (_, i) => i);
  const blocksOf = (sequence: number) => Int32Array.from(blocks, (i) => sequences.blockOf(sequence, i));
  for (let b = 1; b < count; b++) await runner.copyBlocks(blocksOf(0), blocksOf(b));
}

/**
 * A step of `count` sequences with `rows` new tokens each behind `context` tokens. Their blocks are the first of the pool,
 * as the allocator would give them.
 */
export function stepOf(runner: ModelRunner, count: number, context: number, rows: number): StepBatch {
  const sequences = new Sequences(runner, count, context + rows);
  sequences.pasts.fill(context);
  return sequences.batch(
    Array.from({ length: count }, (_, sequence): Chunk => {
      return { sequence, tokens: randomTokens(rows, runner.vocabSize), logits: 'last' };
    }),
  );
}

/** The same, of whose logits only the likeliest tokens are wanted. */
export function greedyStepOf(runner: ModelRunner, count: number, context: number, rows: number): StepBatch {
  const batch = stepOf(runner, count, context, rows);
  return { ...batch, greedyRows: new Uint8Array(batch.logitRows.length).fill(1) };
}

export function argmax(row: Float32Array): number {
  let best = 0;
  for (let i = 1; i < row.length; i++) if (row[i]! > row[best]!) best = i;
  return best;
}
