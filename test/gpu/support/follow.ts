/**
 * Feeds a reference's tokens and looks at what the device would have said: unlike a free run, one near-tie that goes the
 * other way does not hide what follows.
 */
import type { ModelRunner } from '../../../src/model/runner.js';
import { argmax, type ExpectedCase } from '../../support/greedy.js';

export interface FollowOptions {
  /** Rows of a sequence in one step at most, while it has more to catch up with. */
  readonly chunk: number;
  /** Of each sequence, the number of its tokens that are known at the start; the others come one a step. */
  readonly known: (index: number) => number;
}

/** For each case, its positions where the device's choice is not the reference's although the gap exceeds `gap`. */
export async function wrongChoices(
  runner: ModelRunner,
  cases: readonly ExpectedCase[],
  gap: number,
  options: FollowOptions,
): Promise<string[]> {
  const { blockSize, vocabSize } = runner;
  const sequences = cases.map((c, index) => {
    const all = [...c.ids, ...c.greedy.slice(0, -1)];
    return { index, c, all, known: Math.min(all.length, Math.max(c.ids.length, options.known(index))), past: 0 };
  });
  const maxBlocks = Math.ceil(Math.max(...sequences.map((s) => s.all.length)) / blockSize);
  if (maxBlocks * cases.length > runner.numBlocks) throw new Error('the pool is too small for these cases');
  const wrong: string[] = [];
  for (;;) {
    const active = sequences.filter((s) => s.past < s.all.length);
    if (active.length === 0) return wrong;
    const tokens: number[] = [];
    const cumulative = [0];
    const tables: number[] = [];
    const wanted: { row: number; c: ExpectedCase; index: number; generated: number }[] = [];
    for (const s of active) {
      const end = Math.min(s.known, s.past + options.chunk);
      for (let position = s.past; position < end; position++) {
        const generated = position - s.c.ids.length + 1;
        if (generated >= 0) wanted.push({ row: tokens.length, c: s.c, index: s.index, generated });
        tokens.push(s.all[position]!);
      }
      cumulative.push(tokens.length);
      // Blocks of the sequences alternate, from the end of the pool downwards.
      for (let i = 0; i < maxBlocks; i++) tables.push(runner.numBlocks - 1 - (i * cases.length + s.index));
    }
    const { values } = await runner.run({
      tokens: Int32Array.from(tokens),
      cumulativeLengths: Int32Array.from(cumulative),
      pastLengths: Int32Array.from(active, (s) => s.past),
      blockTables: Int32Array.from(tables),
      maxBlocks,
      logitRows: Int32Array.from(wanted, ({ row }) => row),
    });
    wanted.forEach(({ c, index, generated }, i) => {
      const choice = argmax(values.subarray(i * vocabSize, (i + 1) * vocabSize));
      if (choice !== c.greedy[generated] && c.greedy_gaps[generated]! > gap) {
        wrong.push(`case ${index}, token ${generated}: ${choice}, not ${c.greedy[generated]}`);
      }
    });
    for (const s of active) {
      s.past = Math.min(s.known, s.past + options.chunk);
      if (s.past === s.known && s.known < s.all.length) s.known++;
    }
  }
}
