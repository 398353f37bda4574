/**
 * What the type of the cache and the size of its blocks cost and gain: `node bench/run.mjs cache-types`. The same steps of
 * the bundled model in int8 with each cache, in alternation; medians, and how many times as fast as the first.
 */
import { performance } from 'node:perf_hooks';
import type { KvCacheDtype } from '../src/engine/protocol.js';
import { loadForBench } from './support/model.js';
import { readNumbers, readOptionalNumber, readOptions } from './support/options.js';
import { fillPool, greedyStepOf } from './support/sequences.js';
import { formatNumber, formatTable, median } from './support/statistics.js';

const options = readOptions({
  rounds: { type: 'string', default: '5' },
  steps: { type: 'string', default: '12' },
  /** A type each, with its tokens a block where they are not the default ones. */
  caches: { type: 'string', default: 'float16,int8/32,int8' },
  /** Sequences of a decode step, and tokens of context of each. */
  batch: { type: 'string', default: '1,4,16,32' },
  context: { type: 'string', default: '160,500,1000' },
});
/** A chunk of a prompt that fills a step, and the tokens of past before it. */
const CHUNK = 512;
const PASTS = [0, 1536];
/** Rows of `float16` for 32 sequences of 1,000 tokens, and some. */
const POOL_BYTES = 1.5 * 2 ** 30;

const runners = await Promise.all(
  options.caches.split(',').map(async (cache) => {
    const [kvCacheDtype, size] = cache.split('/') as [KvCacheDtype, string?];
    const blockSize = readOptionalNumber(size);
    const { runner } = await loadForBench({ kvCacheDtype, blockSize, precision: 'int8', kvCacheMemory: POOL_BYTES });
    return { runner, name: `${kvCacheDtype} by ${runner.blockSize}` };
  }),
);
const contexts = readNumbers(options.context);
const cells = [
  ...readNumbers(options.batch).flatMap((count) => contexts.map((context) => ({ count, context, rows: 1 }))),
  ...PASTS.map((context) => ({ count: 1, context, rows: CHUNK })),
];
for (const { runner } of runners) await fillPool(runner, 32, Math.max(...contexts) + 1);

const [first, ...others] = runners.map(({ name }) => name);
const table = [['step', ...[first, ...others].map((name) => `${name}, ms`), ...others]];
for (const { count, context, rows } of cells) {
  const times = runners.map((): number[] => []);
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const [which, { runner }] of runners.entries()) {
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
  const ratios = medians.slice(1).map((ms) => (medians[0]! / ms).toFixed(2));
  table.push([name, ...medians.map(formatNumber), ...ratios]);
}
console.log(formatTable(table));
await Promise.all(runners.map(({ runner }) => runner.dispose()));
