/**
 * What the type of the cache costs and gains: `node bench/run.mjs cache-types`. The same steps of the bundled model in int8
 * with a cache of each type, in alternation; medians.
 */
import { performance } from 'node:perf_hooks';
import type { KvCacheDtype } from '../src/engine/protocol.js';
import { loadForBench } from './support/model.js';
import { readNumbers, readOptions } from './support/options.js';
import { fillPool, greedyStepOf } from './support/sequences.js';
import { formatNumber, formatTable, median } from './support/statistics.js';

const options = readOptions({
  rounds: { type: 'string', default: '5' },
  steps: { type: 'string', default: '12' },
  types: { type: 'string', default: 'float16,int8' },
  /** Sequences of a decode step, and tokens of context of each. */
  batch: { type: 'string', default: '1,4,16,32' },
  context: { type: 'string', default: '160,500,1000' },
});
/** A chunk of a prompt that fills a step, and the tokens of past before it. */
const CHUNK = 512;
const PASTS = [0, 1536];
/** Rows of `float16` for 32 sequences of 1,000 tokens, and some. */
const POOL_BYTES = 1.5 * 2 ** 30;

const types = options.types.split(',') as KvCacheDtype[];
const runners = await Promise.all(
  types.map(async (kvCacheDtype) => {
    const { runner } = await loadForBench({ kvCacheDtype, precision: 'int8', kvCacheMemory: POOL_BYTES });
    return runner;
  }),
);
const contexts = readNumbers(options.context);
const cells = [
  ...readNumbers(options.batch).flatMap((count) => contexts.map((context) => ({ count, context, rows: 1 }))),
  ...PASTS.map((context) => ({ count: 1, context, rows: CHUNK })),
];
for (const runner of runners) await fillPool(runner, 32, Math.max(...contexts) + 1);

const table = [['step', ...types.map((type) => `${type} ms`), 'times as fast']];
for (const { count, context, rows } of cells) {
  const times = types.map((): number[] => []);
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const [which, runner] of runners.entries()) {
      const batch = greedyStepOf(runner, count, context, rows);
      for (let step = 0; step < Number(options.steps); step++) {
        const start = performance.now();
        await runner.run(batch);
        times[which]!.push(performance.now() - start);
      }
    }
  }
  const medians = times.map(median);
  const name = rows === 1 ? `decode ${count} at ${context}` : `prefill ${rows} behind ${context}`;
  table.push([name, ...medians.map(formatNumber), (medians[0]! / medians.at(-1)!).toFixed(2)]);
}
console.log(formatTable(table));
await Promise.all(runners.map((runner) => runner.dispose()));
