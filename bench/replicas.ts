/**
 * What replicas of the model gain: `node bench/run.mjs replicas`. The same steps by a runner that computes each by all
 * threads together, and by one that may divide them, in alternation. Rounds are told apart by how far the cores were from
 * each other, which on virtual machines changes.
 */
import { performance } from 'node:perf_hooks';
import type { ModelRunner, StepBatch } from '../src/model/runner.js';
import { coreDistance } from './support/core-distance.js';
import { loadForBench } from './support/model.js';
import { readOptions } from './support/options.js';
import { fillPool, stepOf } from './support/sequences.js';
import { formatNumber, formatTable, median } from './support/statistics.js';

const options = readOptions({
  rounds: { type: 'string', default: '20' },
  /** Steps of a cell in a round and of each runner; two more come before them and are not counted. */
  steps: { type: 'string', default: '6' },
  /** Round trips between the cores, in nanoseconds, from which on they are far apart. */
  far: { type: 'string', default: '350' },
});

const CELLS = [
  { name: 'decode 4 at 160', count: 4, context: 160, rows: 1 },
  { name: 'decode 8 at 160', count: 8, context: 160, rows: 1 },
  { name: 'decode 16 at 160', count: 16, context: 160, rows: 1 },
  { name: 'decode 32 at 160', count: 32, context: 160, rows: 1 },
  { name: 'prefill 2 x 128', count: 2, context: 0, rows: 128 },
  { name: 'prefill 4 x 128', count: 4, context: 0, rows: 128 },
];

const load = async (dataParallelSize: number) => {
  const { runner, description } = await loadForBench({ dataParallelSize, precision: 'int8', kvCacheMemory: 2 ** 29 });
  await fillPool(runner, 32, 161);
  console.log(description);
  return runner;
};
const runners = [await load(1), await load(0)] as const;

function batchOf(runner: ModelRunner, { count, context, rows }: (typeof CELLS)[number]): StepBatch {
  const batch = stepOf(runner, count, context, rows);
  return { ...batch, greedyRows: new Uint8Array(batch.logitRows.length).fill(1) };
}

/** By distance and cell: milliseconds of the steps of each runner. */
const near = CELLS.map((): [number[], number[]] => [[], []]);
const far = CELLS.map((): [number[], number[]] => [[], []]);
let farRounds = 0;
const rounds = Number(options.rounds);
for (let round = 0; round < rounds; round++) {
  const isFar = (await coreDistance()) >= Number(options.far);
  if (isFar) farRounds++;
  const times = isFar ? far : near;
  for (const [c, cell] of CELLS.entries()) {
    for (const which of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      const batch = batchOf(runners[which], cell);
      for (let step = -2; step < Number(options.steps); step++) {
        const start = performance.now();
        await runners[which].run(batch);
        if (step >= 0) times[c]![which].push(performance.now() - start);
      }
    }
  }
}
for (const [name, times, count] of [
  ['near', near, rounds - farRounds],
  ['far apart', far, farRounds],
] as const) {
  if (count === 0) continue;
  console.log(`\ncores ${name}, ${count} rounds`);
  const rows = CELLS.map((cell, c) => {
    const [together, replicas] = times[c]!.map(median) as [number, number];
    return [cell.name, formatNumber(together), formatNumber(replicas), (together / replicas).toFixed(2)];
  });
  console.log(formatTable([['step', 'together ms', 'with replicas ms', 'times as fast'], ...rows]));
}
await Promise.all(runners.map((runner) => runner.dispose()));
