import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { divide } from '../../../src/model/backends/cpu/divide.js';
import { LogitsJoiner } from '../../../src/model/backends/cpu/join.js';
import type { StepBatch, StepLogits } from '../../../src/model/runner.js';

interface Sequence {
  readonly past: number;
  readonly count: number;
  /** Which of its rows' logits are wanted, and which of those as the likeliest token alone. */
  readonly wanted: readonly ('whole' | 'reduced' | undefined)[];
}

const joiner = new LogitsJoiner();
const MAX_BLOCKS = 3;
const VOCABULARY = 4;

/** Row r has token r, so that rows can be told apart wherever they go; block tables and pasts name their sequence. */
function batchOf(sequences: readonly Sequence[]): StepBatch {
  const cumulative = [0];
  for (const { count } of sequences) cumulative.push(cumulative.at(-1)! + count);
  const wanted = sequences.flatMap((s, b) => s.wanted.map((how, i) => ({ how, row: cumulative[b]! + i })));
  const logits = wanted.filter(({ how }) => how !== undefined);
  return {
    tokens: Int32Array.from({ length: cumulative.at(-1)! }, (_, row) => row),
    cumulativeLengths: Int32Array.from(cumulative),
    pastLengths: Int32Array.from(sequences, ({ past }) => past),
    blockTables: Int32Array.from({ length: sequences.length * MAX_BLOCKS }, (_, i) => i),
    maxBlocks: MAX_BLOCKS,
    generated: Uint8Array.from(sequences, ({ count, past }) => (count === 1 && past > 0 ? 1 : 0)),
    logitRows: Int32Array.from(logits, ({ row }) => row),
    greedyRows: Uint8Array.from(logits, ({ how }) => (how === 'reduced' ? 1 : 0)),
    temperatures: Float32Array.from(logits, ({ row }) => 1 + row),
  };
}

/** Logits that follow from a row's token and its temperature, as a runner would return them. */
function logitsOf({ tokens, logitRows, greedyRows, temperatures }: StepBatch): StepLogits {
  const whole: number[] = [];
  logitRows.forEach((_, i) => {
    if (greedyRows![i] === 0) whole.push(i);
  });
  const token = (i: number) => tokens[logitRows[i]!]!;
  const rows = (width: number, value: (i: number, column: number) => number) =>
    Float32Array.from(whole.flatMap((i) => Array.from({ length: width }, (_, column) => value(i, column))));
  return {
    vocabSize: VOCABULARY,
    values: rows(VOCABULARY, (i, column) => token(i) * 10 + column),
    likeliest: {
      tokens: Int32Array.from(logitRows, (row) => tokens[row]! * 3),
      logits: Float32Array.from(logitRows, (row) => tokens[row]! / 2),
    },
    ...(whole.length > 0 && {
      summaries: {
        chunkSize: 2,
        chunks: 2,
        maxima: rows(2, (i, column) => token(i) - column),
        masses: rows(2, (i, column) => temperatures![i]! + column),
      },
    }),
  };
}

const decodeOf = (past: number): Sequence => ({ past, count: 1, wanted: ['reduced'] });
const promptOf = (count: number): Sequence => ({
  past: 0,
  count,
  wanted: Array.from({ length: count }, (_, i) => (i === count - 1 ? 'whole' : undefined)),
});

const sequences = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ past: fc.integer({ min: 1, max: 500 }), count: fc.constant(1) }) },
    { weight: 1, arbitrary: fc.record({ past: fc.nat(300), count: fc.integer({ min: 1, max: 90 }) }) },
  ),
  { minLength: 2, maxLength: 40 },
);
const steps = sequences.chain((shapes) =>
  fc.tuple(
    ...shapes.map(({ past, count }) =>
      fc
        .array(fc.constantFrom('whole' as const, 'reduced' as const, undefined), { minLength: count, maxLength: count })
        .map((wanted): Sequence => ({ past, count, wanted })),
    ),
  ),
);

describe('dividing a step', () => {
  it('gives every row to one share, with its sequence, and puts the logits back in order', () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: 2, max: 4 }), (step, count) => {
        const batch = batchOf(step);
        const shares = divide(batch, count)!.shares();
        expect(shares).toHaveLength(Math.min(count, step.length));
        const rows: number[] = [];
        for (const { batch: own } of shares) {
          rows.push(...own.tokens);
          for (let s = 0; s < own.pastLengths.length; s++) {
            const begin = own.cumulativeLengths[s]!;
            const sequence = batch.cumulativeLengths.indexOf(own.tokens[begin]!);
            const end = own.cumulativeLengths[s + 1]!;
            expect([...own.tokens.subarray(begin, end)]).toEqual(
              Array.from({ length: step[sequence]!.count }, (_, i) => batch.cumulativeLengths[sequence]! + i),
            );
            expect(own.pastLengths[s]).toBe(batch.pastLengths[sequence]);
            expect(own.generated![s]).toBe(batch.generated![sequence]);
            expect(own.blockTables[s * MAX_BLOCKS]).toBe(sequence * MAX_BLOCKS);
          }
        }
        expect(rows.sort((a, b) => a - b)).toEqual([...batch.tokens]);
        expect(
          joiner.join(
            batch,
            shares,
            shares.map((share) => logitsOf(share.batch)),
          ),
        ).toEqual(logitsOf(batch));
      }),
      { numRuns: 500 },
    );
  });

  const sizes = (step: readonly Sequence[], count = 2) =>
    divide(batchOf(step), count)
      ?.shares()
      .map(({ batch }) => batch.pastLengths.length);
  const decodes = (count: number) => Array.from({ length: count }, () => decodeOf(160));

  it('does without what a step leaves out', () => {
    const {
      greedyRows: _,
      temperatures: __,
      generated: ___,
      ...bare
    } = batchOf([decodeOf(10), promptOf(8), decodeOf(9)]);
    for (const batch of [bare, { ...bare, logitRows: new Int32Array(0) }]) {
      const shares = divide(batch, 2)!.shares();
      const complete = (part: StepBatch): StepBatch => ({
        ...part,
        greedyRows: new Uint8Array(part.logitRows.length),
        temperatures: new Float32Array(part.logitRows.length),
      });
      const found = (part: StepBatch) => {
        const { likeliest: ____, ...whole } = logitsOf(complete(part));
        return whole;
      };
      expect(
        joiner.join(
          batch,
          shares,
          shares.map((share) => found(share.batch)),
        ),
      ).toEqual(found(batch));
    }
  });

  it('notices a replica that leaves something out', () => {
    const batch = batchOf([decodeOf(10), decodeOf(9)]);
    const shares = divide(batch, 2)!.shares();
    const [first, second] = shares.map((share) => logitsOf(share.batch));
    const { likeliest: _, ...less } = second!;
    expect(() => joiner.join(batch, shares, [first!, less])).toThrow(/left out/);
  });

  it('lets replicas end together', () => {
    expect(sizes(decodes(16))).toEqual([8, 8]);
    expect(sizes(decodes(32), 4)).toEqual([8, 8, 8, 8]);
    expect(sizes([promptOf(128), promptOf(128)])).toEqual([1, 1]);
    // A long prompt beside as much of short ones.
    expect(sizes([promptOf(120), promptOf(40), promptOf(40), promptOf(40)])).toEqual([1, 3]);
    expect(sizes([promptOf(400), ...decodes(16)])).toEqual([1, 16]);
    expect(sizes(decodes(1))).toBeUndefined();
  });

  it('expects it to be faster with many rows, and slower with few or most in one sequence', () => {
    const gain = (step: readonly Sequence[]) => {
      const { whole, divided } = divide(batchOf(step), 2)!;
      return whole / divided;
    };
    expect(gain([promptOf(128), promptOf(128)])).toBeGreaterThan(1);
    expect(gain(decodes(48))).toBeGreaterThan(1);
    expect(gain(decodes(4))).toBeLessThan(0.9);
    expect(gain([promptOf(400), ...decodes(16)])).toBeLessThan(0.7);
  });
});
