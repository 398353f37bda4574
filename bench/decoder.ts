/**
 * What a step of the model costs, without scheduler and sampler: `node bench/run.mjs decoder`. Decode steps by sequences
 * and tokens of context, and prompts of several lengths, each as one step.
 */
import { performance } from 'node:perf_hooks';
import type { ModelRunner, StepBatch } from '../src/model/runner.js';
import { loadForBench, readPrecisions } from './support/model.js';
import { readNumbers, readOptionalNumber, readOptions } from './support/options.js';
import { bundledModel } from './support/paths.js';
import { fillPool, stepOf } from './support/sequences.js';
import { formatNumber, formatTable, median } from './support/statistics.js';

const options = readOptions({
  model: { type: 'string', default: bundledModel },
  device: { type: 'string', default: 'cpu' },
  precision: { type: 'string', default: 'int8' },
  decode: { type: 'string', default: '1,4,16,32' },
  context: { type: 'string', default: '160,600' },
  prefill: { type: 'string', default: '20,128,512' },
  /** Prompts in a prefill step. */
  prompts: { type: 'string', default: '1' },
  /** Rounds over all cells, so that drift of the machine reaches all alike. */
  repeat: { type: 'string', default: '5' },
  /** Steps of a cell in a round; one more comes before them and is not counted. */
  steps: { type: 'string', default: '5' },
  threads: { type: 'string', default: '0' },
  'block-size': { type: 'string' },
  /** Rows reduced to their likeliest token, as for greedy requests; without it whole rows are asked for. */
  greedy: { type: 'boolean', default: false },
});

interface Cell {
  readonly name: string;
  readonly batch: StepBatch;
  /** Tokens that a step computes. */
  readonly tokens: number;
  /** Milliseconds of each step. */
  readonly times: number[];
}

function cellOf(name: string, batch: StepBatch): Cell {
  const greedyRows = new Uint8Array(batch.logitRows.length).fill(1);
  return { name, batch: options.greedy ? { ...batch, greedyRows } : batch, tokens: batch.tokens.length, times: [] };
}

async function cellsOf(runner: ModelRunner): Promise<Cell[]> {
  const counts = readNumbers(options.decode);
  const contexts = readNumbers(options.context);
  await fillPool(runner, Math.max(...counts), Math.max(...contexts) + 1);
  const prompts = Number(options.prompts);
  return [
    ...contexts.flatMap((context) =>
      counts.map((count) => cellOf(`decode ${count} at ${context}`, stepOf(runner, count, context, 1))),
    ),
    ...readNumbers(options.prefill).map((length) =>
      cellOf(`prefill ${prompts} x ${length}`, stepOf(runner, prompts, 0, length)),
    ),
  ];
}

async function measure(runner: ModelRunner, cells: readonly Cell[]): Promise<void> {
  for (let round = 0; round < Number(options.repeat); round++) {
    for (const { batch, times } of cells) {
      await runner.run(batch);
      for (let step = 0; step < Number(options.steps); step++) {
        const start = performance.now();
        await runner.run(batch);
        times.push(performance.now() - start);
      }
    }
  }
}

for (const precision of readPrecisions(options.precision)) {
  const { runner, description } = await loadForBench({
    model: options.model,
    device: options.device === 'webgpu' ? 'webgpu' : 'cpu',
    precision,
    threads: Number(options.threads),
    blockSize: readOptionalNumber(options['block-size']),
    kvCacheMemory: 2 * 1024 ** 3,
  });
  console.log(`${precision}: ${description}`);
  const cells = await cellsOf(runner);
  await measure(runner, cells);
  const rows = cells.map(({ name, tokens, times }) => {
    const [least, middle] = [Math.min(...times), median(times)];
    return [name, ...[least, middle, (1000 * tokens) / least, (1000 * tokens) / middle].map(formatNumber)];
  });
  console.log(formatTable([['step', 'min ms', 'median ms', 'tok/s at min', 'at median'], ...rows]));
  await runner.dispose();
}
