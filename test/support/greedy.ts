/** Drives a ModelRunner by hand, without the engine: greedy continuation of prompts, in chunks, in one batch. */
import { readFileSync } from 'node:fs';
import type { ModelRunner } from '../../src/model/runner.js';

export interface ExpectedCase {
  readonly prompt: string;
  readonly ids: number[];
  readonly next_logits: number[];
  readonly greedy: number[];
  readonly greedy_logprobs: number[];
  readonly greedy_gaps: number[];
}

export function readExpected(model: string): ExpectedCase[] {
  const file = new URL(`../fixtures/models/${model}/expected.json`, import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { cases: ExpectedCase[] }).cases;
}

export interface Continuation {
  /** Logits after the last prompt token. */
  readonly firstLogits: Float32Array;
  readonly tokens: number[];
}

/**
 * Continues each prompt by `count` tokens. At most `chunk` rows of a sequence enter a step; all sequences run in one
 * batch, with their blocks interleaved over the pool.
 */
export async function continueGreedily(
  runner: ModelRunner,
  prompts: readonly (readonly number[])[],
  count: number,
  chunk: number,
): Promise<Continuation[]> {
  const { vocabSize, blockSize } = runner;
  const longest = Math.max(...prompts.map((p) => p.length)) + count;
  const maxBlocks = Math.ceil(longest / blockSize);
  const sequences = prompts.map((prompt, index) => ({
    index,
    tokens: [...prompt],
    past: 0,
    firstLogits: undefined as Float32Array | undefined,
    generated: [] as number[],
  }));
  for (;;) {
    const active = sequences.filter((s) => s.generated.length < count);
    if (active.length === 0) break;
    const tokens: number[] = [];
    const cumulative = [0];
    const logitRows: number[] = [];
    const sampled: typeof active = [];
    const blockTables = new Int32Array(active.length * maxBlocks);
    for (const [row, s] of active.entries()) {
      const end = Math.min(s.tokens.length, s.past + chunk);
      tokens.push(...s.tokens.slice(s.past, end));
      cumulative.push(tokens.length);
      for (let i = 0; i < Math.ceil(end / blockSize); i++) {
        blockTables[row * maxBlocks + i] = i * prompts.length + s.index;
      }
      if (end === s.tokens.length) {
        logitRows.push(tokens.length - 1);
        sampled.push(s);
      }
    }
    const { values } = await runner.run({
      tokens: Int32Array.from(tokens),
      cumulativeLengths: Int32Array.from(cumulative),
      pastLengths: Int32Array.from(active, (s) => s.past),
      blockTables,
      maxBlocks,
      logitRows: Int32Array.from(logitRows),
    });
    for (const s of active) s.past = Math.min(s.tokens.length, s.past + chunk);
    sampled.forEach((s, i) => {
      const row = values.slice(i * vocabSize, (i + 1) * vocabSize);
      s.firstLogits ??= row;
      const next = argmax(row);
      s.generated.push(next);
      s.tokens.push(next);
    });
  }
  return sequences.map((s) => ({ firstLogits: s.firstLogits as Float32Array, tokens: s.generated }));
}

export function argmax(row: Float32Array): number {
  let best = 0;
  for (let i = 1; i < row.length; i++) if ((row[i] as number) > (row[best] as number)) best = i;
  return best;
}

/** Tokens equal to the reference up to the first one whose gap to the second choice is at most `gap`. */
export function matchesUpToGap(tokens: readonly number[], reference: ExpectedCase, gap: number): boolean {
  for (let i = 0; i < reference.greedy.length; i++) {
    if (tokens[i] === reference.greedy[i]) continue;
    return (reference.greedy_gaps[i] as number) <= gap;
  }
  return true;
}
