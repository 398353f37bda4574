/**
 * What a step of the model costs, without scheduler and sampler: `node bench/run.mjs decoder`. Decode steps by sequences
 * and tokens of context, and prompts of several lengths, each as one step.
 */
import { performance } from 'node:perf_hooks';
import type { ModelRunner, StepBatch } from '../src/model/runner.js';
import { loadForBench, readPrecisions } from './support/model.js';
import { readNumbers, readOptions } from './support/options.js';
import { bundledModel } from './support/paths.js';
import { type Chunk, Sequences } from './support/sequences.js';
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
  'block-size': { type: 'string', default: '32' },
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

function randomTokens(count: number, vocabSize: number): Int32Array {
  return Int32Array.from({ length: count }, () => Math.floor(Math.random() * vocabSize));
}

function cellOf(name: string, sequences: Sequences, chunks: readonly Chunk[]): Cell {
  const batch = sequences.batch(chunks);
  const greedyRows = new Uint8Array(batch.logitRows.length).fill(1);
  return { name, batch: options.greedy ? { ...batch, greedyRows } : batch, tokens: batch.tokens.length, times: [] };
}

/** The first sequence is computed, the others take copies of its blocks: a pool of zeros would lie in one page of memory. */
async function fill(sequences: Sequences, context: number): Promise<void> {
  const { runner, count } = sequences;
  await sequences.run([{ sequence: 0, tokens: randomTokens(context, runner.vocabSize), logits: 'none' }]);
  for (let b = 1; b < count; b++) {
    const blocks = Array.from({ length: Math.ceil(context / runner.blockSize) }, (_, i) => i);
    const source = Int32Array.from(blocks, (i) => sequences.blockOf(0, i));
    await runner.copyBlocks(
      source,
      Int32Array.from(blocks, (i) => sequences.blockOf(b, i)),
    );
    sequences.pasts[b] = context;
  }
}

async function cellsOf(runner: ModelRunner): Promise<Cell[]> {
  const counts = readNumbers(options.decode);
  const contexts = readNumbers(options.context);
  const decode = new Sequences(runner, Math.max(...counts), Math.max(...contexts) + 1);
  await fill(decode, Math.max(...contexts));
  const cells: Cell[] = [];
  for (const context of contexts) {
    // Shorter contexts are the beginnings of the longest one.
    decode.pasts.fill(context);
    for (const count of counts) {
      const chunks = Array.from({ length: count }, (_, sequence): Chunk => {
        return { sequence, tokens: randomTokens(1, runner.vocabSize), logits: 'last' };
      });
      cells.push(cellOf(`decode ${count} at ${context}`, decode, chunks));
    }
  }
  const prompts = Number(options.prompts);
  for (const length of readNumbers(options.prefill)) {
    const sequences = new Sequences(runner, prompts, length);
    const chunks = Array.from({ length: prompts }, (_, sequence): Chunk => {
      return { sequence, tokens: randomTokens(length, runner.vocabSize), logits: 'last' };
    });
    cells.push(cellOf(`prefill ${prompts} x ${length}`, sequences, chunks));
  }
  return cells;
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
    blockSize: Number(options['block-size']),
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
