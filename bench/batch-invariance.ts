/**
 * Whether what a request gets depends on what runs beside it: `node bench/run.mjs batch-invariance`. Requests, half of
 * them greedy and half seeded, run alone and then 32 at a time; tokens and log probabilities are compared bit for bit.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { EngineClient } from '../src/engine/client.js';
import { startEngine } from '../src/engine/worker-client.js';
import { benchConfig, readPrecisions } from './support/model.js';
import { readOptions } from './support/options.js';
import { root } from './support/paths.js';
import { requestOf } from './support/request.js';

const options = readOptions({
  precision: { type: 'string', default: 'int8' },
  requests: { type: 'string', default: '200' },
  concurrency: { type: 'string', default: '32' },
  tokens: { type: 'string', default: '16' },
});
const count = Number(options.requests);

/** Lengths and contents of every kind a mixed load has: one token to a few blocks, and every fifth longer than a segment or seven. */
function prompt(i: number): number[] {
  const length = i % 5 === 4 ? 300 + ((i * 137) % 1700) : 1 + ((i * 37) % 150);
  return Array.from({ length }, (_, k) => 1000 + ((k * 131 + i * 7919) % 20_000));
}

async function answer(engine: EngineClient, i: number): Promise<string> {
  const sampling = i % 2 === 0 ? {} : { temperature: 0.9, topP: i % 4 === 1 ? 1 : 0.9, seed: i };
  const request = { ...requestOf(prompt(i), Number(options.tokens), sampling), cacheSalt: String(i), logprobs: 2 };
  const parts: unknown[] = [];
  for await (const outputs of engine.generate(request)) {
    for (const { tokens, logprobs } of outputs) parts.push(tokens, logprobs);
  }
  return JSON.stringify(parts);
}

const [precision] = readPrecisions(options.precision);
const engine = startEngine(benchConfig(precision === undefined ? {} : { precision }), {
  worker: pathToFileURL(join(root, 'dist', 'engine', 'worker.js')),
});
await engine.ready();
const alone: string[] = [];
for (let i = 0; i < count; i++) alone.push(await answer(engine, i));

const together: string[] = [];
let next = 0;
await Promise.all(
  Array.from({ length: Number(options.concurrency) }, async () => {
    for (let i = next++; i < count; i = next++) together[i] = await answer(engine, i);
  }),
);
await engine.close();

const different = alone.flatMap((text, i) => (text === together[i] ? [] : [prompt(i).length]));
console.log(
  `${count} requests in ${options.precision}: ${different.length} differ alone and among ${options.concurrency}`,
);
if (different.length > 0) console.log(`lengths of their prompts: ${different.join(', ')}`);
process.exitCode = different.length > 0 ? 1 : 0;
