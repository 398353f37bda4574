/**
 * How the engine shares its steps out: `node bench/run.mjs steps`. What of a step is not the model (scheduling,
 * sampling, messages); how many decode steps a short prompt waits among decoding streams; and how far apart the tokens
 * of streams get while long prompts keep arriving.
 */
import { setMaxListeners } from 'node:events';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { pathToFileURL } from 'node:url';
import type { EngineStats } from '../src/engine/protocol.js';
import { startEngine } from '../src/engine/worker-client.js';
import { benchConfig, readPrecisions } from './support/model.js';
import { readOptions } from './support/options.js';
import { root } from './support/paths.js';
import { requestOf } from './support/request.js';
import { formatNumber, formatTable, median } from './support/statistics.js';

const options = readOptions({
  precision: { type: 'string', default: 'int8' },
  threads: { type: 'string', default: '0' },
  'max-num-batched-tokens': { type: 'string', default: '512' },
  /** Sequences whose steps are taken apart. */
  sequences: { type: 'string', default: '32' },
  /** Tokens of each of their answers. */
  tokens: { type: 'string', default: '96' },
  /** Streams that decode while prompts arrive. */
  streams: { type: 'string', default: '16' },
  prompts: { type: 'string', default: '20' },
  /** Whether prompts and decodes share steps: on, off, or what suits the device. */
  'mixed-chunk': { type: 'string', default: 'auto' },
});

const steps: EngineStats[] = [];
const engine = startEngine(
  benchConfig({
    precision: readPrecisions(options.precision)[0]!,
    threads: Number(options.threads),
    maxNumBatchedTokens: Number(options['max-num-batched-tokens']),
    mixedSteps: { auto: undefined, on: true, off: false }[options['mixed-chunk']],
  }),
  {
    worker: pathToFileURL(join(root, 'dist', 'engine', 'worker.js')),
    onStep: (stats) => steps.push(stats),
  },
);
console.log((await engine.ready()).deviceDescription);

let serial = 0;
/** Ids that no other prompt begins with. */
function promptOf(length: number): number[] {
  serial++;
  return Array.from({ length }, (_, i) => 1000 + ((serial * 7919 + i * 131) % 20_000));
}

/** Generates and returns the time of each token, in milliseconds. */
async function generate(promptTokens: number, newTokens: number, signal?: AbortSignal): Promise<number[]> {
  const times: number[] = [];
  for await (const outputs of engine.generate(requestOf(promptOf(promptTokens), newTokens), signal)) {
    for (const { tokens } of outputs) for (const _ of tokens) times.push(performance.now());
  }
  return times;
}

/** Milliseconds from the end of one step to that of the next, where both decode `sequences` and nothing else. */
function decodePeriods(sequences: number): { readonly period: number; readonly stats: EngineStats }[] {
  const plain = (stats: EngineStats) => stats.decodeTokens === sequences && stats.prefillTokens === 0;
  return steps.flatMap((stats, i) => {
    const previous = steps[i - 1];
    if (previous === undefined || !plain(previous) || !plain(stats)) return [];
    return [{ period: 1000 * (stats.time - previous.time), stats }];
  });
}

async function takeApart(sequences: number): Promise<void> {
  steps.length = 0;
  await Promise.all(Array.from({ length: sequences }, () => generate(64, Number(options.tokens))));
  const periods = decodePeriods(sequences);
  const share = (name: string, milliseconds: (entry: (typeof periods)[number]) => number): string[] => [
    name,
    formatNumber(median(periods.map(milliseconds))),
    `${(100 * median(periods.map((entry) => milliseconds(entry) / entry.period))).toFixed(2)} %`,
  ];
  const rest = ({ period, stats }: (typeof periods)[number]): number =>
    period - 1000 * (stats.scheduleTime + stats.modelTime + stats.sampleTime);
  const rows = [
    share('step', ({ period }) => period),
    share('model', ({ stats }) => 1000 * stats.modelTime),
    share('scheduling', ({ stats }) => 1000 * stats.scheduleTime),
    share('sampling', ({ stats }) => 1000 * stats.sampleTime),
    share('messages and the rest', rest),
    share('all but the model', (entry) => entry.period - 1000 * entry.stats.modelTime),
  ];
  console.log(
    `\n${formatTable([[`${sequences} sequences, ${periods.length} steps`, 'median ms', 'of a step'], ...rows])}`,
  );
}

/** Streams that decode for as long as `work` runs; each gives the times of its tokens. */
async function amongStreams(streams: number, work: () => Promise<void>): Promise<number[][]> {
  const stop = new AbortController();
  setMaxListeners(streams, stop.signal);
  steps.length = 0;
  const running = Array.from({ length: streams }, () => generate(64, 4000, stop.signal));
  while (!(steps.at(-1)?.decodeTokens === streams && decodePeriods(streams).length >= 10)) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await work();
  stop.abort();
  return Promise.all(running);
}

async function shortPrompts(streams: number, count: number): Promise<void> {
  const waits: number[] = [];
  await amongStreams(streams, async () => {
    for (let i = 0; i < count; i++) {
      const start = performance.now();
      const [first] = await generate(100, 1);
      waits.push(first! - start);
      await new Promise((resolve) => setTimeout(resolve, 50 + 13 * i));
    }
  });
  const step = median(decodePeriods(streams).map(({ period }) => period));
  const inSteps = waits.map((wait) => wait / step);
  console.log(
    `\nfirst token of a 100-token prompt among ${streams} streams: median ${median(inSteps).toFixed(2)} decode steps, ` +
      `most ${Math.max(...inSteps).toFixed(2)}, of ${formatNumber(step)} ms`,
  );
}

async function longPrompts(streams: number, count: number): Promise<void> {
  let from = 0;
  const times = await amongStreams(streams, async () => {
    from = performance.now();
    for (let i = 0; i < count; i++) await generate(1000, 1);
  });
  const gaps = times.flatMap((stream) => {
    const during = stream.filter((time) => time >= from);
    return during.slice(1).map((time, i) => time - during[i]!);
  });
  gaps.sort((a, b) => a - b);
  const [middle, p99] = [median(gaps), gaps[Math.floor(0.99 * gaps.length)]!];
  console.log(
    `\ntime between tokens of ${streams} streams while ${count} prompts of 1,000 tokens arrive one after another: ` +
      `median ${formatNumber(middle)} ms, p99 ${formatNumber(p99)} ms, ${(p99 / middle).toFixed(2)} times it`,
  );
}

await takeApart(Number(options.sequences));
await shortPrompts(Number(options.streams), Number(options.prompts));
await longPrompts(Number(options.streams), Number(options.prompts));
await engine.close();
