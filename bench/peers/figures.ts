/** Rates of a run, from the time at which each token was there. */
import type { RunResult } from './protocol.js';
import type { Cell } from './workload.js';

/** Tokens a second. */
export interface Figures {
  /** Prompt tokens over the time until every sequence had its first token. */
  readonly prefill: number;
  /**
   * Tokens over the time in which all sequences were decoding: from the last one's first token to the first one's last.
   * So it is the same measure for engines that compute all prompts first and for those that mix. Not of prompts alone.
   */
  readonly decode?: number;
  /** Generated tokens over the whole time. */
  readonly endToEnd: number;
  /** Seconds until the first token, the median of the sequences. */
  readonly firstToken: number;
}

/** Throws when a sequence did not get its tokens, or its times are not in order. */
export function figuresOf(cell: Cell, { tokens, times }: RunResult): Figures {
  check(cell, tokens, times);
  const firsts = times.map((sequence) => sequence[0]!).sort((a, b) => a - b);
  const lasts = times.map((sequence) => sequence.at(-1)!);
  const prefilled = firsts.at(-1)!;
  const figures = {
    prefill: (cell.streams * cell.promptTokens) / prefilled,
    endToEnd: (cell.streams * cell.newTokens) / Math.max(...lasts),
    firstToken: firsts[firsts.length >> 1]!,
  };
  if (cell.kind === 'prefill') return figures;
  const end = Math.min(...lasts);
  if (end <= prefilled) throw new Error('some sequences ended before others had their first token');
  const decoded = times.flat().filter((time) => time > prefilled && time <= end).length;
  return { ...figures, decode: decoded / (end - prefilled) };
}

function check(cell: Cell, tokens: RunResult['tokens'], times: RunResult['times']): void {
  if (tokens.length !== cell.streams || times.length !== cell.streams) {
    throw new Error(`${tokens.length} sequences came back, not ${cell.streams}`);
  }
  for (const [i, sequence] of times.entries()) {
    if (sequence.length !== cell.newTokens || tokens[i]!.length !== cell.newTokens) {
      throw new Error(`a sequence has ${tokens[i]!.length} tokens, not ${cell.newTokens}`);
    }
    if (sequence.some((time, t) => !(time > 0) || time < (sequence[t - 1] ?? 0))) {
      throw new Error('the times of a sequence are not in order');
    }
  }
}
