/** Divides a step between replicas, sequence by sequence, and joins what they found. */
import type { Likeliest, RowSummaries, StepBatch, StepLogits } from '../../runner.js';

/** Some of a step's sequences, as a step of their own. */
export interface Share {
  readonly batch: StepBatch;
  /** i32 [S of the share], ascending: which of the step's `logitRows` its own are. */
  readonly logits: Int32Array;
}

/** A step that can be divided. */
export interface Division {
  /** What the step is expected to cost computed at once by all threads, and divided; see `COST`. */
  readonly whole: number;
  readonly divided: number;
  /** At most as many as there are replicas, none of them empty. */
  shares(): Share[];
}

/**
 * What steps cost, in decodes: a fixed part (weights are read, nodes are started), which more threads shorten less than the
 * rows, and each sequence's part by what it computes and the context it reads. Fitted to `node bench/run.mjs decoder` with
 * the bundled model, with one thread and with two, on the machine of docs/cpu.md. `Pace` corrects it for others.
 */
const COST = {
  decode: 0.6,
  prefillToken: 0.49,
  contextToken: 0.0022,
  /** Before the first row, of one thread that computes a share, and of all that compute the step together. */
  startOfShare: 7,
  startOfWhole: 4.6,
  /** What a row costs all threads together, over what it costs the shares' threads side by side. */
  togetherOverShares: 1.13,
} as const;

/** Divides the sequences so that `count` replicas end at about the same time; undefined for a single one. */
export function divide(batch: StepBatch, count: number): Division | undefined {
  if (batch.pastLengths.length < 2) return undefined;
  const costs = Array.from(batch.pastLengths, (_, sequence) => costOf(batch, sequence));
  const total = costs.reduce((sum, cost) => sum + cost, 0);
  const members = balance(costs, count).filter(({ sequences }) => sequences.length > 0);
  return {
    whole: COST.startOfWhole + (total / count) * COST.togetherOverShares,
    divided: COST.startOfShare + Math.max(...members.map(({ cost }) => cost)),
    shares: () => members.map(({ sequences }) => take(batch, sequences)),
  };
}

function costOf(batch: StepBatch, sequence: number): number {
  const rows = (batch.cumulativeLengths[sequence + 1] as number) - (batch.cumulativeLengths[sequence] as number);
  const past = batch.pastLengths[sequence] as number;
  // A chunk's rows read its context together.
  return (rows === 1 ? COST.decode : rows * COST.prefillToken) + past * COST.contextToken;
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
  const logits: number[] = [];
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
      logits.push(logit);
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
      ...(greedyRows && { greedyRows: Uint8Array.from(pick(greedyRows, logits)) }),
      ...(temperatures && { temperatures: Float32Array.from(pick(temperatures, logits)) }),
    },
    logits: Int32Array.from(logits),
  };
}

/** The logits of a step from those of its shares, in the step's order. */
export function join(batch: StepBatch, shares: readonly Share[], found: readonly StepLogits[]): StepLogits {
  const { vocabSize } = found[0] as StepLogits;
  /** Of each of the step's logit rows, its place among the whole ones; those that are reduced have none. */
  const wholeIndex = new Int32Array(batch.logitRows.length).fill(-1);
  let wholeRows = 0;
  batch.logitRows.forEach((_, i) => {
    if (batch.greedyRows?.[i] !== 1) wholeIndex[i] = wholeRows++;
  });
  /** Rows of `width` numbers each, those that are wanted whole. */
  const rows = (width: number, of: (logits: StepLogits) => Float32Array | undefined): Float32Array => {
    const joined = new Float32Array(wholeRows * width);
    shares.forEach(({ logits }, s) => {
      const source = of(found[s] as StepLogits);
      let own = 0;
      for (const index of logits) {
        const target = wholeIndex[index] as number;
        if (target < 0 || source === undefined) continue;
        joined.set(source.subarray(own * width, (own + 1) * width), target * width);
        own++;
      }
    });
    return joined;
  };
  const sizes = found.find(({ summaries }) => summaries !== undefined)?.summaries;
  return {
    vocabSize,
    values: rows(vocabSize, ({ values }) => values),
    ...(batch.greedyRows && { likeliest: joinLikeliest(batch.logitRows.length, shares, found) }),
    ...(sizes && { summaries: joinSummaries(sizes, rows) }),
  };
}

function joinSummaries(
  { chunkSize, chunks }: RowSummaries,
  rows: (width: number, of: (logits: StepLogits) => Float32Array | undefined) => Float32Array,
): RowSummaries {
  return {
    chunkSize,
    chunks,
    maxima: rows(chunks, ({ summaries }) => summaries?.maxima),
    masses: rows(chunks, ({ summaries }) => summaries?.masses),
  };
}

function joinLikeliest(count: number, shares: readonly Share[], found: readonly StepLogits[]): Likeliest {
  const tokens = new Int32Array(count);
  const logits = new Float32Array(count);
  shares.forEach((share, s) => {
    const { likeliest } = found[s] as StepLogits;
    if (likeliest === undefined) return;
    share.logits.forEach((index, own) => {
      tokens[index] = likeliest.tokens[own] as number;
      logits[index] = likeliest.logits[own] as number;
    });
  });
  return { tokens, logits };
}
