/** Entries and windows of a step against what they must describe: which row attends to which slots. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { independentRuns } from '../../../src/model/backends/webgpu/cache.js';
import { INPUTS } from '../../../src/model/backends/webgpu/names.js';
import { buildStepInputs } from '../../../src/model/backends/webgpu/step-inputs.js';
import { windowFeeds } from '../../../src/model/backends/webgpu/windows.js';
import type { StepBatch } from '../../../src/model/runner.js';

const BLOCK = 4;

/** Sequences of given past and new tokens; every block number is used once. */
function batchOf(
  sequences: readonly (readonly [past: number, count: number])[],
  wanted: readonly boolean[],
): StepBatch {
  const cumulative = [0];
  for (const [, count] of sequences) cumulative.push(cumulative.at(-1)! + count);
  const maxBlocks = Math.max(...sequences.map(([past, count]) => Math.ceil((past + count) / BLOCK)));
  const rows = cumulative.at(-1)!;
  return {
    tokens: Int32Array.from({ length: rows }, (_, i) => 100 + i),
    cumulativeLengths: Int32Array.from(cumulative),
    pastLengths: Int32Array.from(sequences, ([past]) => past),
    blockTables: Int32Array.from({ length: sequences.length * maxBlocks }, (_, i) => (i * 7) % 101),
    maxBlocks,
    logitRows: Int32Array.from({ length: rows }, (_, i) => i).filter((row) => wanted[row % wanted.length]),
  };
}

const batches = fc
  .tuple(
    fc.array(fc.tuple(fc.nat(20), fc.integer({ min: 1, max: 12 })), { minLength: 1, maxLength: 6 }),
    fc.array(fc.boolean(), { minLength: 1, maxLength: 9 }),
  )
  .map(([sequences, wanted]) => batchOf(sequences, wanted));

/** Slots that each row sees, itself included, as the batch says. */
function seenSlots(batch: StepBatch, window = Number.POSITIVE_INFINITY): number[][] {
  const all: number[][] = [];
  batch.pastLengths.forEach((past, sequence) => {
    const begin = batch.cumulativeLengths[sequence]!;
    for (let row = begin; row < batch.cumulativeLengths[sequence + 1]!; row++) {
      const position = past + row - begin;
      const slots: number[] = [];
      for (let p = Math.max(0, position - window + 1); p <= position; p++) {
        slots.push(batch.blockTables[sequence * batch.maxBlocks + Math.floor(p / BLOCK)]! * BLOCK + (p % BLOCK));
      }
      all.push(slots);
    }
  });
  return all;
}

describe('entries of the batch', () => {
  it('let every row see the slots that the step says, however they are split', () => {
    fc.assert(
      fc.property(batches, fc.integer({ min: 1, max: 13 }), fc.boolean(), (batch, maxRows, endAtLogits) => {
        const { feeds, entries, entryOfLogits } = buildStepInputs(batch, { maxRows, endAtLogits }, true);
        const data = (name: string) => feeds[name]!.data as Int32Array;
        const asBatch: StepBatch = {
          ...batch,
          cumulativeLengths: data(INPUTS.cumulativeLengths),
          pastLengths: data(INPUTS.pastLengths),
          blockTables: data(INPUTS.blockTable),
        };
        expect(seenSlots(asBatch)).toEqual(seenSlots(batch));

        const lengths = Array.from(
          { length: entries },
          (_, e) => asBatch.cumulativeLengths[e + 1]! - asBatch.cumulativeLengths[e]!,
        );
        const totals = lengths.map((length, e) => length + asBatch.pastLengths[e]!);
        expect(Math.max(...lengths)).toBeLessThanOrEqual(maxRows);
        expect([...data(INPUTS.metadata)]).toEqual([Math.max(...lengths), Math.max(...totals), Math.min(...totals)]);
        if (endAtLogits) {
          expect(entryOfLogits.map((entry) => asBatch.cumulativeLengths[entry + 1]! - 1)).toEqual([...batch.logitRows]);
        }
        expect([...(feeds[INPUTS.tokens]!.data as BigInt64Array)].map(Number)).toEqual([...batch.tokens]);
      }),
    );
  });

  it('are the sequences themselves when nothing has to be split', () => {
    const batch = batchOf(
      [
        [3, 5],
        [9, 1],
        [0, 40],
      ],
      [true],
    );
    const { feeds, entries } = buildStepInputs(batch, { maxRows: Number.POSITIVE_INFINITY, endAtLogits: false }, true);
    expect(entries).toBe(3);
    expect(feeds[INPUTS.cumulativeLengths]!.data).toEqual(batch.cumulativeLengths);
    expect(feeds[INPUTS.blockTable]!.data).toEqual(batch.blockTables);
  });

  it('ask for one row when none is wanted, and for none where the graph cannot be asked', () => {
    const batch = batchOf([[0, 4]], [false]);
    const rules = { maxRows: 99, endAtLogits: false };
    expect([...(buildStepInputs(batch, rules, true).feeds[INPUTS.logitRows]!.data as Int32Array)]).toEqual([0]);
    expect(buildStepInputs(batch, rules, false).feeds[INPUTS.logitRows]).toBeUndefined();
  });
});

describe('repacked windows', () => {
  it('gather what a row sees besides itself, in order', () => {
    fc.assert(
      fc.property(batches, fc.integer({ min: 1, max: 40 }), (batch, window) => {
        const feeds = windowFeeds(batch, BLOCK, [window]);
        const data = (name: string) => feeds[`window_${window}_${name}`]!.data as Int32Array;
        const perRow = data('slots').length / batch.tokens.length;
        const gathered = [...data('past_lengths')].map((past, row) => [
          ...data('slots').subarray(row * perRow, row * perRow + past),
        ]);
        expect(gathered).toEqual(seenSlots(batch, window).map((slots) => slots.slice(0, -1)));
        expect(perRow).toBeGreaterThanOrEqual(Math.max(...data('past_lengths')) + 1);
      }),
    );
  });
});

describe('copies of blocks', () => {
  it('are cut into runs that give the same as one after another', () => {
    const copies = fc.array(fc.tuple(fc.nat(7), fc.nat(7)), { maxLength: 12 });
    fc.assert(
      fc.property(copies, (pairs) => {
        const oneByOne = [0, 1, 2, 3, 4, 5, 6, 7];
        for (const [source, target] of pairs) oneByOne[target] = oneByOne[source]!;
        const source = Int32Array.from(pairs, ([s]) => s);
        const target = Int32Array.from(pairs, ([, t]) => t);
        const inRuns = [0, 1, 2, 3, 4, 5, 6, 7];
        for (const [begin, end] of independentRuns(source, target)) {
          const read = [...source.subarray(begin, end)].map((s) => inRuns[s]!);
          // The device may write in any order.
          for (let i = end - 1; i >= begin; i--) inRuns[target[i]!] = read[i - begin]!;
        }
        expect(inRuns).toEqual(oneByOne);
      }),
    );
  });
});
