import { describe, expect, it } from 'vitest';
import type { Sample } from '../../bench/peers/compare.js';
import { drawComparison } from '../../bench/peers/plot.js';
import { measuresOf, noiseTable, rateTable, ratioTable } from '../../bench/peers/report.js';
import type { Cell } from '../../bench/peers/workload.js';

const cells: Cell[] = [
  { name: 'prefill 1', kind: 'prefill', streams: 1, promptTokens: 8, newTokens: 1 },
  { name: 'generate 4', kind: 'generate', streams: 4, promptTokens: 8, newTokens: 8 },
];
const measures = measuresOf(cells);

/** Decode rates of each engine by round; the other rates are multiples of them. */
const RATES: Readonly<Record<string, readonly number[]>> = {
  ours: [100, 20, 60],
  'a & b': [50, 40, 20],
  c: [80, 10, 30],
};
const samples = Object.entries(RATES).flatMap(([engine, rates]) =>
  rates.flatMap((rate, round): Sample[] => {
    const cpu = { own: 1, others: 0.5, stolen: 0.1, wall: 1 };
    const prompts = { prefill: 10 * rate, endToEnd: rate, firstToken: 1 };
    const answers = { prefill: 9 * rate, decode: rate, endToEnd: rate / 2, firstToken: 1 };
    return [
      { engine, cell: 'prefill 1', round, figures: prompts, cpu },
      { engine, cell: 'generate 4', round, figures: answers, cpu },
    ];
  }),
);

describe('the tables', () => {
  it('take prefill from runs of prompts alone, and medians over the rounds', () => {
    expect(rateTable(samples, ['ours', 'c'], measures)).toEqual([
      ['tokens/s, median', 'ours', 'c'],
      ['prefill, 1 prompt', '600', '300'],
      ['decode, 4', '60.0', '30.0'],
      ['end to end, 4', '30.0', '15.0'],
    ]);
  });

  it('compare within rounds, with each engine and with the fastest of the round', () => {
    // By round: over a & b 2, 0.5, 3; over c 1.25, 2, 2; over the best 1.25, 0.5, 2.
    expect(ratioTable(samples, 'ours', ['a & b', 'c'], measures)[2]).toEqual(['decode, 4', '2.00', '2.00', '1.25']);
  });

  it('show what others had of the machine, of all its processors', () => {
    expect(noiseTable(samples, ['ours'], 2)[1]).toEqual(['ours', '1.00', '25.0 %', '5.0 %']);
  });
});

describe('the plot', () => {
  const svg = drawComparison(
    '<title>',
    samples,
    [
      { name: 'ours', ours: true },
      { name: 'a & b', ours: false },
    ],
    measures,
  );

  it('has a bar for each engine and measure, as long as its rate', () => {
    const widths = [...svg.matchAll(/width="([\d.]+)" height="15" class="(ours|other)"/g)];
    expect(widths.map(([, , kind]) => kind)).toEqual(['ours', 'other', 'ours', 'other', 'ours', 'other']);
    const decode = widths.slice(2, 4).map(([, width]) => Number(width));
    expect(decode[1]! / decode[0]!).toBeCloseTo(40 / 60, 2);
  });

  it('escapes names', () => {
    expect(svg).not.toContain('><title>');
    expect(svg).toContain('<title>&#60;title&#62;</title>');
    expect(svg).not.toContain('a & b');
    expect(svg).toContain('a &#38; b');
  });
});
