/**
 * What replicas of the model gain: `node bench/run.mjs replicas`. The same steps by a runner that computes each by all
 * threads together, and by one that may divide them, in alternation. Blocks of steps are told apart by how far the cores
 * were from each other before and after them, which on virtual machines changes; those in which it changed do not count.
 */
import { performance } from 'node:perf_hooks';
import { coreDistance } from './support/core-distance.js';
import { loadForBench } from './support/model.js';
import { readOptions } from './support/options.js';
import { fillPool, greedyStepOf } from './support/sequences.js';
import { formatNumber, formatTable, median } from './support/statistics.js';

const options = readOptions({
  rounds: { type: 'string', default: '12' },
  /** Steps of a block; as many come before them and are not counted, in which the runner learns the block's kind. */
  steps: { type: 'string', default: '10' },
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

const isFar = async () => (await coreDistance()) >= Number(options.far);

/** Milliseconds of the steps of each runner, by cell. */
const timesOf = () => CELLS.map((): [number[], number[]] => [[], []]);
const near = timesOf();
const far = timesOf();
for (let round = 0; round < Number(options.rounds); round++) {
  for (const [c, cell] of CELLS.entries()) {
    for (const which of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      const batch = greedyStepOf(runners[which], cell.count, cell.context, cell.rows);
      const before = await isFar();
      const times: number[] = [];
      for (let step = -Number(options.steps); step < Number(options.steps); step++) {
        const start = performance.now();
        await runners[which].run(batch);
        if (step >= 0) times.push(performance.now() - start);
      }
      if ((await isFar()) === before) (before ? far : near)[c]![which].push(...times);
    }
  }
}
for (const [name, times] of [
  ['near', near],
  ['far apart', far],
] as const) {
  console.log(`\ncores ${name}`);
  const rows = CELLS.flatMap((cell, c) => {
    if (times[c]!.some((steps) => steps.length === 0)) return [];
    const [together, replicas] = times[c]!.map(median) as [number, number];
    const steps = times[c]!.map(({ length }) => length).join(', ');
    return [[cell.name, formatNumber(together), formatNumber(replicas), (together / replicas).toFixed(2), steps]];
  });
  console.log(formatTable([['step', 'together ms', 'with replicas ms', 'times as fast', 'steps'], ...rows]));
}
await Promise.all(runners.map((runner) => runner.dispose()));
