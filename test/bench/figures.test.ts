import { describe, expect, it } from 'vitest';
import { figuresOf } from '../../bench/peers/figures.js';
import { ratioOf } from '../../bench/peers/report.js';
import { type Cell, cellsOf, promptsOf } from '../../bench/peers/workload.js';

const generate: Cell = { name: 'generate 2', kind: 'generate', streams: 2, promptTokens: 10, newTokens: 4 };
const tokens = [
  [1, 2, 3, 4],
  [5, 6, 7, 8],
];

describe('figuresOf', () => {
  it('counts decode tokens only while all sequences decode', () => {
    // The first starts at 1 and ends at 7, the second starts at 4 and ends at 10: both decode from 4 to 7.
    const times = [
      [1, 3, 5, 7],
      [4, 6, 8, 10],
    ];
    expect(figuresOf(generate, { tokens, times })).toEqual({
      prefill: 20 / 4,
      // The first's at 5 and 7, the second's at 6.
      decode: 3 / 3,
      endToEnd: 8 / 10,
      firstToken: 4,
    });
  });

  it('has no decode rate of prompts alone', () => {
    const cell: Cell = { ...generate, kind: 'prefill', newTokens: 1 };
    const figures = figuresOf(cell, { tokens: [[1], [2]], times: [[2], [4]] });
    expect(figures).toEqual({ prefill: 5, endToEnd: 0.5, firstToken: 4 });
  });

  it.each([
    ['a sequence is missing', [[1, 2, 3, 4]], '1 sequences came back, not 2'],
    [
      'a token is missing',
      [
        [1, 2, 3, 4],
        [1, 2, 3],
      ],
      'a sequence has 3 tokens, not 4',
    ],
    [
      'times go back',
      [
        [1, 2, 3, 4],
        [1, 3, 2, 4],
      ],
      'not in order',
    ],
    [
      'the first is over before the second begins',
      [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
      ],
      'ended before others',
    ],
  ])('refuses runs where %s', (_, times, message) => {
    const ids = times.map((sequence) => sequence.map(() => 1));
    expect(() => figuresOf(generate, { tokens: ids, times })).toThrow(message);
  });
});

describe('the workload', () => {
  it('has no two prompts that begin alike, within a round and between rounds', () => {
    const prompts = [0, 1, 2].flatMap((round) => promptsOf(round, 32, 128));
    expect(prompts.every((prompt) => prompt.length === 128)).toBe(true);
    expect(new Set(prompts.map((prompt) => prompt.slice(0, 2).join())).size).toBe(96);
  });

  it('is the same for every engine of a round', () => {
    expect(promptsOf(3, 4, 20)).toEqual(promptsOf(3, 4, 20));
  });

  it('measures prompts alone, of one sequence and of at most 16, and each number of streams', () => {
    const names = cellsOf({ streams: [1, 32], promptTokens: 128, newTokens: 64 }).map(({ name }) => name);
    expect(names).toEqual(['prefill 1', 'prefill 16', 'generate 1', 'generate 32']);
    expect(cellsOf({ streams: [1], promptTokens: 8, newTokens: 8 }).map(({ name }) => name)).toEqual([
      'prefill 1',
      'generate 1',
    ]);
  });
});

it('takes ratios within rounds, so that a slow round counts for both sides', () => {
  expect(ratioOf([100, 10, 30], [50, 5, 10])).toBe(2);
});
