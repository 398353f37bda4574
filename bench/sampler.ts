/**
 * What drawing a token costs: `node bench/run.mjs sampler`. Rows of real logits, one for each position of a text, and the
 * settings that requests use; then the log probabilities that requests may ask for.
 */
import { performance } from 'node:perf_hooks';
import type { SamplingParams } from '../src/engine/protocol.js';
import { Adjustments } from '../src/engine/sampler/adjustments.js';
import { Logprobs } from '../src/engine/sampler/logprobs.js';
import { Sampler } from '../src/engine/sampler/sampler.js';
import { Sequence } from '../src/engine/sequence.js';
import { readDistributions } from './support/golden.js';
import { loadForBench } from './support/model.js';
import { readOptions } from './support/options.js';
import { requestOf } from './support/request.js';
import { Sequences } from './support/sequences.js';
import { formatNumber, formatTable, median } from './support/statistics.js';

const options = readOptions({ repeat: { type: 'string', default: '7' } });

const SETTINGS: readonly (readonly [name: string, params: Partial<SamplingParams>])[] = [
  ['greedy', {}],
  ['temperature 1', { temperature: 1 }],
  ['top-k 40', { temperature: 0.8, topK: 40 }],
  ['top-p 0.9', { temperature: 0.8, topP: 0.9 }],
  ['top-k 50, top-p 0.95', { temperature: 1, topK: 50, topP: 0.95 }],
  ['min-p 0.05', { temperature: 1, minP: 0.05 }],
  ['greedy, repetition penalty', { repetitionPenalty: 1.1 }],
  [
    'top-p 0.9, three penalties',
    { temperature: 0.8, topP: 0.9, repetitionPenalty: 1.1, presencePenalty: 0.5, frequencyPenalty: 0.2 },
  ],
  ['1,000 allowed tokens', { temperature: 1, allowedTokenIds: Array.from({ length: 1000 }, (_, i) => 7 * i) }],
];

async function realLogits(): Promise<{ rows: Float32Array[]; tokens: Int32Array }> {
  const { runner } = await loadForBench({ kvCacheMemory: 2 ** 27 });
  const { tokens } = readDistributions()[0]!;
  const { values, vocabSize } = await new Sequences(runner, 1, tokens.length).run([
    { sequence: 0, tokens, logits: 'all' },
  ]);
  await runner.dispose();
  const rows = Array.from(tokens, (_, row) => values.slice(row * vocabSize, (row + 1) * vocabSize));
  return { rows, tokens };
}

/** Microseconds a row, of each round. */
function time(rows: readonly Float32Array[], each: (row: Float32Array) => void): number[] {
  for (const row of rows) each(row);
  return Array.from({ length: Number(options.repeat) }, () => {
    const start = performance.now();
    for (const row of rows) each(row);
    return ((performance.now() - start) * 1000) / rows.length;
  });
}

const { rows, tokens } = await realLogits();
const vocabSize = rows[0]!.length;
const table = [[`microseconds a row of ${vocabSize} logits`, 'min', 'median']];
const add = (name: string, times: readonly number[]): void => {
  table.push([name, formatNumber(Math.min(...times)), formatNumber(median(times))]);
};
for (const [name, params] of SETTINGS) {
  const sampler = new Sampler(vocabSize);
  const request = { ...requestOf(tokens, 256, { ...params, seed: 1 }), id: 1, arrival: 0 };
  const sequence = new Sequence(request, 0, 0, 4096);
  const adjustments = new Adjustments(sequence, vocabSize);
  add(
    name,
    time(rows, (row) => sampler.draw(row, sequence, adjustments)),
  );
}
const logprobs = new Logprobs();
for (const alternatives of [0, 5, 20]) {
  add(
    `log probability and ${alternatives} alternatives`,
    time(rows, (row) => logprobs.of(row, 0, alternatives)),
  );
}
console.log(formatTable(table));
