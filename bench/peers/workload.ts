/** What all engines are asked: prompts of real text, none of which begins like another of the same comparison. */
import { readDistributions } from '../support/golden.js';
import type { RunRequest } from './protocol.js';

/** Ids of plain words, one of which begins each prompt. */
const FIRST_WORD = 1000;
const WORDS = 20_000;

/**
 * `count` prompts of `length` tokens. Their first two tokens come from `turn` and their place, so that no engine finds
 * any of a prompt in a prefix cache, and every engine of a turn gets the same.
 */
export function promptsOf(turn: number, count: number, length: number): number[][] {
  const text = readDistributions().flatMap(({ tokens }) => [...tokens]);
  return Array.from({ length: count }, (_, index) => {
    const start = (index * 53 + turn * 17) % text.length;
    const rest = Array.from({ length: length - 2 }, (_, i) => text[(start + i) % text.length]!);
    return [FIRST_WORD + (turn % WORDS), FIRST_WORD + (index % WORDS), ...rest];
  });
}

/** One thing that is measured. */
export interface Cell {
  readonly name: string;
  readonly kind: 'prefill' | 'generate';
  readonly streams: number;
  readonly promptTokens: number;
  readonly newTokens: number;
}

export interface CellOptions {
  readonly streams: readonly number[];
  readonly promptTokens: number;
  readonly newTokens: number;
}

/** Prompts alone, of one sequence and of as many as 16; then prompts and answers at each number of streams. */
export function cellsOf({ streams, promptTokens, newTokens }: CellOptions): Cell[] {
  const prompts = [...new Set([1, Math.min(16, Math.max(...streams))])];
  return [
    ...prompts.map((count): Cell => {
      return { name: `prefill ${count}`, kind: 'prefill', streams: count, promptTokens, newTokens: 1 };
    }),
    ...streams.map((count): Cell => {
      return { name: `generate ${count}`, kind: 'generate', streams: count, promptTokens, newTokens };
    }),
  ];
}

/** @param turn another for each cell of each round */
export function requestFor(cell: Cell, turn: number): RunRequest {
  return { prompts: promptsOf(turn, cell.streams, cell.promptTokens), newTokens: cell.newTokens };
}
