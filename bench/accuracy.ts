/**
 * How far each precision is from fp32: `node bench/run.mjs accuracy -- --precision int8,fp32`. Distributions of the next
 * token over eight texts against the reference's, once with each text as one chunk and once token by token, since the two
 * take different kernels; then greedy answers against the reference's.
 */
import type { KvCacheDtype, Precision } from '../src/engine/protocol.js';
import type { ModelRunner } from '../src/model/runner.js';
import {
  type Distributions,
  type GreedyCase,
  readDistributions,
  readGreedy,
  readTinyModels,
} from './support/golden.js';
import { loadForBench, readPrecisions } from './support/model.js';
import { readOptionalNumber, readOptions } from './support/options.js';
import { bundledModel } from './support/paths.js';
import { argmax, type Chunk, Sequences } from './support/sequences.js';
import { formatTable, mean } from './support/statistics.js';

const options = readOptions({
  /** Another version of the bundled model, such as one with coarser weights. */
  model: { type: 'string', default: bundledModel },
  precision: { type: 'string', default: 'int8' },
  'kv-cache-dtype': { type: 'string', default: 'auto' },
  device: { type: 'string', default: 'cpu' },
  'block-size': { type: 'string' },
  /** A first wrong token is forgiven where the reference's two best are closer than this. */
  gap: { type: 'string', default: '0.3' },
  /** Rows of a text in one step; 1 is the decode path. */
  chunks: { type: 'string', default: '192,1' },
  tiny: { type: 'boolean', default: false },
});

interface Divergence {
  readonly kl: number[];
  readonly agreed: boolean[];
  readonly losses: number[];
}

/** Adds one position: what the model says there against what the reference says. */
function compare(row: Float32Array, doc: Distributions, position: number, result: Divergence): void {
  const best = argmax(row);
  const maximum = row[best]!;
  let sum = 0;
  for (let i = 0; i < row.length; i++) sum += Math.exp(row[i]! - maximum);
  const normalizer = maximum + Math.log(sum);
  let kl = 0;
  let reference = 0;
  let model = 0;
  for (let i = position * doc.width; i < (position + 1) * doc.width; i++) {
    const logprob = row[doc.top[i]!]! - normalizer;
    const probability = Math.exp(doc.logprobs[i]!);
    kl += probability * (doc.logprobs[i]! - logprob);
    reference += probability;
    model += Math.exp(logprob);
  }
  const tail = Math.max(1 - reference, 0);
  if (tail > 0) kl += tail * Math.log(tail / Math.max(1 - model, 1e-12));
  result.kl.push(kl);
  result.agreed.push(best === doc.top[position * doc.width]);
  const next = doc.tokens[position + 1];
  if (next !== undefined) result.losses.push(normalizer - row[next]!);
}

/** Reads the texts side by side, `chunk` tokens of each in a step. */
async function divergence(runner: ModelRunner, docs: readonly Distributions[], chunk: number): Promise<Divergence> {
  const result: Divergence = { kl: [], agreed: [], losses: [] };
  const length = docs[0]!.tokens.length;
  const sequences = new Sequences(runner, docs.length, length);
  // Whole texts go one by one: their logits take 38 MB each.
  const together = chunk === 1 ? docs.length : 1;
  for (let first = 0; first < docs.length; first += together) {
    for (let start = 0; start < length; start += chunk) {
      const group = docs.slice(first, first + together);
      const step = group.map((doc, i): Chunk => {
        return { sequence: first + i, tokens: doc.tokens.subarray(start, start + chunk), logits: 'all' };
      });
      const { values, vocabSize } = await sequences.run(step);
      let row = 0;
      for (const [i, { tokens }] of step.entries()) {
        for (let position = start; position < start + tokens.length; position++, row++) {
          compare(values.subarray(row * vocabSize, (row + 1) * vocabSize), group[i]!, position, result);
        }
      }
    }
  }
  return result;
}

/** Continues all prompts in one batch; undefined where a case is matched to its end, else the first wrong step. */
async function firstWrong(runner: ModelRunner, cases: readonly GreedyCase[]): Promise<(number | undefined)[]> {
  const longest = Math.max(...cases.map(({ prompt, greedy }) => prompt.length + greedy.length));
  const sequences = new Sequences(runner, cases.length, longest);
  const wrong: (number | undefined)[] = cases.map(() => undefined);
  let next: readonly (readonly number[])[] = cases.map(({ prompt }) => prompt);
  const steps = Math.max(...cases.map(({ greedy }) => greedy.length));
  for (let step = 0; step < steps; step++) {
    const { values, vocabSize } = await sequences.run(
      next.map((tokens, sequence): Chunk => ({ sequence, tokens, logits: 'last' })),
    );
    const chosen = cases.map((_, i) => argmax(values.subarray(i * vocabSize, (i + 1) * vocabSize)));
    for (const [i, { greedy }] of cases.entries()) {
      if (step < greedy.length && chosen[i] !== greedy[step]) wrong[i] ??= step;
    }
    next = chosen.map((token) => [token]);
  }
  return wrong;
}

/** How many cases part from the reference only where its two best are closer than `gap`, and where each case parts. */
async function greedyReport(runner: ModelRunner, cases: readonly GreedyCase[], gap: number): Promise<string> {
  const wrong = await firstWrong(runner, cases);
  const forgiven = wrong.filter((step, i) => step === undefined || cases[i]!.gaps[step]! < gap).length;
  const places = wrong.map((step, i) =>
    step === undefined ? 'whole' : `${step} (gap ${cases[i]!.gaps[step]!.toFixed(3)})`,
  );
  return `${forgiven} of ${cases.length} up to a gap < ${gap}; parted at ${places.join(', ')}`;
}

async function measure(precision: Precision | 'auto'): Promise<string[][]> {
  const docs = readDistributions();
  const device = options.device === 'webgpu' ? 'webgpu' : 'cpu';
  const { runner } = await loadForBench({
    model: options.model,
    precision,
    kvCacheDtype: options['kv-cache-dtype'] as KvCacheDtype | 'auto',
    device,
    blockSize: readOptionalNumber(options['block-size']),
  });
  const rows: string[][] = [];
  const reference = mean(docs.map(({ loss }) => loss));
  for (const chunk of options.chunks.split(',').map(Number)) {
    const { kl, agreed, losses } = await divergence(runner, docs, chunk);
    const perplexity = 100 * (Math.exp(mean(losses) - reference) - 1);
    rows.push([
      precision,
      String(chunk),
      mean(kl).toFixed(5),
      kl.reduce((most, value) => Math.max(most, value), 0).toFixed(3),
      `${((100 * agreed.filter(Boolean).length) / agreed.length).toFixed(2)} %`,
      `${perplexity >= 0 ? '+' : ''}${perplexity.toFixed(2)} %`,
    ]);
  }
  console.log(`${precision}: greedy ${await greedyReport(runner, readGreedy(), Number(options.gap))}`);
  await runner.dispose();
  return rows;
}

const table = [['precision', 'rows a step', 'mean KL', 'most', 'top-1', 'perplexity']];
for (const precision of readPrecisions(options.precision)) {
  table.push(...(await measure(precision)));
  if (!options.tiny) continue;
  for (const { name, directory, cases } of readTinyModels()) {
    try {
      const { runner } = await loadForBench({ model: directory, precision, kvCacheMemory: 2 ** 26 });
      console.log(`${precision}: ${name} ${await greedyReport(runner, cases, 0.1)}`);
      await runner.dispose();
    } catch (error) {
      console.log(`${precision}: ${name}: ${error instanceof Error ? error.message : error}`);
    }
  }
}
console.log(formatTable(table));
