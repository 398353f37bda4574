/** Divides a step between replicas, sequence by sequence. */
import type { StepBatch } from '../../runner.js';
import { costOfShare, costOfStep, sequenceCost } from './step-cost.js';

/** Some of a step's sequences, as a step of their own. */
export interface Share {
  readonly batch: StepBatch;
  /** i32 [S of the share], ascending: which of the step's `logitRows` its own are. */
  readonly logitIndices: Int32Array;
}

/** A step that can be divided. */
export interface Division {
  /** What the step is expected to cost computed at once by all threads, and divided; see step-cost.ts. */
  readonly whole: number;
  readonly divided: number;
  /** At most as many as there are replicas, none of them empty. */
  shares(): Share[];
}

/** Divides the sequences so that `count` replicas end at about the same time; undefined for a single one. */
export function divide(batch: StepBatch, count: number): Division | undefined {
  if (batch.pastLengths.length < 2) return undefined;
  const { cumulativeLengths: ends } = batch;
  const costs = Array.from(batch.pastLengths, (past, sequence) =>
    sequenceCost((ends[sequence + 1] as number) - (ends[sequence] as number), past),
  );
  const members = balance(costs, count).filter(({ sequences }) => sequences.length > 0);
  return {
    whole: costOfStep(
      costs.reduce((sum, cost) => sum + cost, 0),
      count,
    ),
    divided: costOfShare(Math.max(...members.map(({ cost }) => cost))),
    shares: () => members.map(({ sequences }) => take(batch, sequences)),
  };
}

/** The dearest first, each to whom has least; sequences of a share in their old order. */
function balance(costs: readonly number[], count: number): { cost: number; sequences: number[] }[] {
  const shares = Array.from({ length: count }, () => ({ cost: 0, sequences: [] as number[] }));
  const order = costs.map((_, sequence) => sequence).sort((a, b) => (costs[b] as number) - (costs[a] as number));
  for (const sequence of order) {
    const least = shares.reduce((best, share) => (share.cost < best.cost ? share : best));
    least.cost += costs[sequence] as number;
    least.sequences.push(sequence);
  }
  for (const share of shares) share.sequences.sort((a, b) => a - b);
  return shares;
}

function take(batch: StepBatch, sequences: readonly number[]): Share {
  const { cumulativeLengths, maxBlocks, generated, greedyRows, temperatures } = batch;
  const begins = sequences.map((sequence) => cumulativeLengths[sequence] as number);
  const counts = sequences.map((sequence, i) => (cumulativeLengths[sequence + 1] as number) - (begins[i] as number));
  const ends = Int32Array.of(0, ...counts);
  for (let i = 1; i < ends.length; i++) ends[i] = (ends[i] as number) + (ends[i - 1] as number);
  const tokens = new Int32Array(ends.at(-1) as number);
  const blockTables = new Int32Array(sequences.length * maxBlocks);
  const logitIndices: number[] = [];
  const logitRows: number[] = [];
  // Logit rows ascend, as do the sequences: one pass finds all.
  let logit = 0;
  sequences.forEach((sequence, i) => {
    const begin = begins[i] as number;
    const end = begin + (counts[i] as number);
    const target = ends[i] as number;
    tokens.set(batch.tokens.subarray(begin, end), target);
    blockTables.set(batch.blockTables.subarray(sequence * maxBlocks, (sequence + 1) * maxBlocks), i * maxBlocks);
    for (; logit < batch.logitRows.length && (batch.logitRows[logit] as number) < end; logit++) {
      const row = batch.logitRows[logit] as number;
      if (row < begin) continue;
      logitIndices.push(logit);
      logitRows.push(row - begin + target);
    }
  });
  const pick = <T>(array: ArrayLike<T>, indices: readonly number[]) => indices.map((index) => array[index] as T);
  return {
    batch: {
      tokens,
      cumulativeLengths: ends,
      pastLengths: Int32Array.from(pick(batch.pastLengths, sequences)),
      blockTables,
      maxBlocks,
      ...(generated && { generated: Uint8Array.from(pick(generated, sequences)) }),
      logitRows: Int32Array.from(logitRows),
      ...(greedyRows && { greedyRows: Uint8Array.from(pick(greedyRows, logitIndices)) }),
      ...(temperatures && { temperatures: Float32Array.from(pick(temperatures, logitIndices)) }),
    },
    logitIndices: Int32Array.from(logitIndices),
  };
}
