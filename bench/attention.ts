/**
 * What attention costs by batch and context: `node bench/run.mjs attention`. The time of a step with a context, less that
 * of the same step without one, which has the same rows and so the same of everything else; per layer, and as bytes of the
 * cache read a second, to be held against what the machine's memory gives.
 */
import { performance } from 'node:perf_hooks';
import { openCheckpoint } from '../src/model/formats/open.js';
import type { ModelRunner, StepBatch } from '../src/model/runner.js';
import { loadForBench, readPrecisions } from './support/model.js';
import { readNumbers, readOptionalNumber, readOptions } from './support/options.js';
import { bundledModel } from './support/paths.js';
import { fillPool, stepOf } from './support/sequences.js';
import { formatNumber, formatTable, median } from './support/statistics.js';

const options = readOptions({
  model: { type: 'string', default: bundledModel },
  precision: { type: 'string', default: 'int8' },
  batch: { type: 'string', default: '1,4,16,32' },
  context: { type: 'string', default: '64,256,1024' },
  /** Rows of a chunk of one prompt behind each context. */
  chunk: { type: 'string', default: '128' },
  repeat: { type: 'string', default: '5' },
  steps: { type: 'string', default: '5' },
  threads: { type: 'string', default: '0' },
  'block-size': { type: 'string' },
});

interface Pair {
  readonly name: string;
  /** Cached tokens that the step's attention reads. */
  readonly cached: number;
  readonly with: StepBatch;
  readonly without: StepBatch;
  /** Milliseconds more with the context than without, of each round. */
  readonly extra: number[];
}

function pairOf(runner: ModelRunner, count: number, context: number, rows: number): Pair {
  return {
    name: rows === 1 ? `decode ${count} at ${context}` : `chunk of ${rows} at ${context}`,
    cached: count * context,
    with: stepOf(runner, count, context, rows),
    without: stepOf(runner, count, 0, rows),
    extra: [],
  };
}

/** The least of a few steps: what disturbs a step only ever makes it longer. */
async function least(runner: ModelRunner, batch: StepBatch): Promise<number> {
  await runner.run(batch);
  let best = Number.POSITIVE_INFINITY;
  for (let step = 0; step < Number(options.steps); step++) {
    const start = performance.now();
    await runner.run(batch);
    best = Math.min(best, performance.now() - start);
  }
  return best;
}

const checkpoint = await openCheckpoint(options.model);
const layers = checkpoint.architecture.layers.length;
await checkpoint.close();
for (const precision of readPrecisions(options.precision)) {
  const { runner, description } = await loadForBench({
    model: options.model,
    precision,
    threads: Number(options.threads),
    blockSize: readOptionalNumber(options['block-size']),
    kvCacheMemory: 3 * 1024 ** 3,
  });
  console.log(`${precision}: ${description}`);
  const batches = readNumbers(options.batch);
  const contexts = readNumbers(options.context);
  const chunk = Number(options.chunk);
  await fillPool(runner, Math.max(...batches), Math.max(...contexts) + chunk);
  const pairs = [
    ...contexts.flatMap((context) => batches.map((count) => pairOf(runner, count, context, 1))),
    ...contexts.map((context) => pairOf(runner, 1, context, chunk)),
  ];
  for (let round = 0; round < Number(options.repeat); round++) {
    for (const pair of pairs) {
      pair.extra.push((await least(runner, pair.with)) - (await least(runner, pair.without)));
    }
  }
  const slotBytes = runner.kvCacheBytes / (runner.numBlocks * runner.blockSize);
  const rows = pairs.map(({ name, cached, extra }) => {
    const middle = median(extra);
    const rate = (cached * slotBytes) / (middle / 1000) / 1e9;
    return [name, formatNumber(middle), formatNumber(middle / layers), middle > 0 ? formatNumber(rate) : '-'];
  });
  console.log(formatTable([['step', 'ms more', 'a layer', 'GB/s of cache'], ...rows]));
  await runner.dispose();
}
