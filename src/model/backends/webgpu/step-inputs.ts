/**
 * From a step's ragged batch to the inputs of the paged graph. A sequence's rows are one entry of the graph's batch, or
 * several with the same block table: all keys of a step are written before any are read, so a later entry sees the
 * earlier ones as its past.
 */
import { Tensor } from 'onnxruntime-node';
import type { StepBatch } from '../../runner.js';
import { INPUTS } from './names.js';

export interface EntryRules {
  /** Rows of an entry at most. */
  readonly maxRows: number;
  /** Whether a row whose logits are wanted must be the last of its entry. */
  readonly endAtLogits: boolean;
}

export interface StepInputs {
  readonly feeds: Record<string, Tensor>;
  /** Number of entries. */
  readonly entries: number;
  /** For each wanted row the entry that it ends, when `endAtLogits`. */
  readonly entryOfLogits: readonly number[];
  /** Number of rows whose logits are wanted whole. */
  readonly wholeRows: number;
}

export function buildStepInputs(batch: StepBatch, rules: EntryRules, takesLogitRows: boolean): StepInputs {
  const rows = batch.tokens.length;
  const ends: number[] = [];
  const owners: number[] = [];
  const entryOfLogits: number[] = [];
  let wanted = 0;
  for (let sequence = 0; sequence < batch.pastLengths.length; sequence++) {
    const end = batch.cumulativeLengths[sequence + 1]!;
    for (let begin = batch.cumulativeLengths[sequence]!; begin < end; ) {
      let stop = Math.min(end, begin + rules.maxRows);
      if (rules.endAtLogits && wanted < batch.logitRows.length && batch.logitRows[wanted]! < stop) {
        stop = batch.logitRows[wanted++]! + 1;
        entryOfLogits.push(ends.length);
      }
      ends.push(stop);
      owners.push(sequence);
      begin = stop;
    }
  }

  const entries = ends.length;
  const width = batch.maxBlocks;
  const cumulative = new Int32Array(entries + 1);
  const past = new Int32Array(entries);
  const table = new Int32Array(entries * width);
  let longestQuery = 0;
  let longest = 0;
  let shortest = Number.POSITIVE_INFINITY;
  for (let entry = 0; entry < entries; entry++) {
    const sequence = owners[entry]!;
    const begin = cumulative[entry]!;
    const end = ends[entry]!;
    cumulative[entry + 1] = end;
    past[entry] = batch.pastLengths[sequence]! + begin - batch.cumulativeLengths[sequence]!;
    table.set(batch.blockTables.subarray(sequence * width, (sequence + 1) * width), entry * width);
    const length = past[entry]! + end - begin;
    longestQuery = Math.max(longestQuery, end - begin);
    longest = Math.max(longest, length);
    shortest = Math.min(shortest, length);
  }

  const feeds: Record<string, Tensor> = {
    [INPUTS.tokens]: new Tensor('int64', BigInt64Array.from(batch.tokens, BigInt), [rows]),
    [INPUTS.blockTable]: new Tensor('int32', table, [entries, width]),
    [INPUTS.cumulativeLengths]: new Tensor('int32', cumulative, [entries + 1]),
    [INPUTS.pastLengths]: new Tensor('int32', past, [entries]),
    [INPUTS.metadata]: new Tensor('int32', Int32Array.of(longestQuery, longest, shortest), [3]),
  };
  const { greedyRows } = batch;
  let whole = Int32Array.from({ length: batch.logitRows.length }, (_, i) => i);
  if (takesLogitRows && greedyRows !== undefined) whole = whole.filter((i) => greedyRows[i] !== 1);
  if (takesLogitRows) {
    feeds[INPUTS.logitRows] = someRows(batch.logitRows);
    feeds[INPUTS.wholeRows] = someRows(whole);
    const inverse = Float32Array.from(whole.length > 0 ? whole : [0], (i) => 1 / (batch.temperatures?.[i] ?? 1));
    feeds[INPUTS.inverseTemperatures] = new Tensor('float32', inverse, [inverse.length, 1]);
  }
  return { feeds, entries, entryOfLogits, wholeRows: whole.length };
}

/** Operators may not take an empty axis; one row that nobody reads is cheaper than a second graph. */
function someRows(rows: Int32Array): Tensor {
  const data = rows.length > 0 ? Int32Array.from(rows) : Int32Array.of(0);
  return new Tensor('int32', data, [data.length]);
}
