/**
 * What one user's flood does to another's single request, with fair shares and without: `node bench/run.mjs fairness`;
 * `--write` puts the result into docs/scheduling.md. Ends with code 1 where fair shares leave the single one waiting
 * for more than twice its time on an idle engine and one step.
 */
import { setMaxListeners } from 'node:events';
import type { EngineStats } from '../src/engine/protocol.js';
import type { WorkerEngineClient } from '../src/engine/worker-client.js';
import { randomInteger, randomSource } from '../src/loadgen/random.js';
import { markdownTable, writeBlock } from './support/document.js';
import { runRequest, startBenchEngine } from './support/engine-run.js';
import { describeMachine } from './support/machine.js';
import { benchConfig } from './support/model.js';
import { readNumbers, readOptions } from './support/options.js';
import { requestOf } from './support/request.js';
import { formatNumber, formatTable, median } from './support/statistics.js';

const options = readOptions({
  flood: { type: 'string', default: '200' },
  'prompt-tokens': { type: 'string', default: '128' },
  'output-tokens': { type: 'string', default: '64' },
  'max-num-seqs': { type: 'string', default: '32' },
  rounds: { type: 'string', default: '3' },
  write: { type: 'boolean', default: false },
});
const [flood = 0] = readNumbers(options.flood);
const [promptTokens = 0] = readNumbers(options['prompt-tokens']);
const [outputTokens = 0] = readNumbers(options['output-tokens']);
const [maxNumSeqs = 0] = readNumbers(options['max-num-seqs']);
const [rounds = 0] = readNumbers(options.rounds);

const config = benchConfig({ maxNumSeqs, kvCacheMemory: 2 ** 28 });
const random = randomSource(1, 'fairness');
const prompt = () => Array.from({ length: promptTokens }, () => randomInteger(random, 1000, 20_000));

/** All in milliseconds. */
interface Round {
  readonly idle: number;
  readonly flooded: number;
  /** Median of the steps while the single request waited. */
  readonly step: number;
}

async function round(engine: WorkerEngineClient, steps: EngineStats[]): Promise<Round> {
  const single = () => runRequest(engine, { ...requestOf(prompt(), 2), user: 'single' });
  const idle = median([(await single()).ttft, (await single()).ttft, (await single()).ttft]);
  const stop = new AbortController();
  setMaxListeners(0, stop.signal);
  const running = Array.from({ length: flood }, () =>
    runRequest(engine, { ...requestOf(prompt(), outputTokens), user: 'flood' }, stop.signal),
  );
  while ((engine.stats?.running ?? 0) < maxNumSeqs) await new Promise((resolve) => setTimeout(resolve, 20));
  steps.length = 0;
  const { ttft: flooded } = await single();
  const step = median(
    steps.map(({ scheduleTime, modelTime, sampleTime }) => (scheduleTime + modelTime + sampleTime) * 1000),
  );
  stop.abort();
  await Promise.allSettled(running);
  while ((engine.stats?.running ?? 0) > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  return { idle, flooded, step };
}

const machine = describeMachine();
const steps: [EngineStats[], EngineStats[]] = [[], []];
const engines = [true, false].map((fairShare, which) =>
  startBenchEngine({ ...config, fairShare }, { onStep: (stats) => steps[which]!.push(stats) }),
);
const found: [Round[], Round[]] = [[], []];
try {
  for (const engine of engines) await runRequest(engine, requestOf(prompt(), 2));
  for (let i = 0; i < rounds; i++) {
    for (const which of [0, 1]) found[which]!.push(await round(engines[which]!, steps[which]!));
  }
} finally {
  await Promise.all(engines.map((engine) => engine.close()));
}

const of = (some: readonly Round[], key: keyof Round) => median(some.map((value) => value[key]));
/** Median of the rounds' own ratios: the machine may drift from one round to the next. */
const overBound = (some: readonly Round[]) =>
  median(some.map(({ idle, step, flooded }) => flooded / (2 * idle + step)));
const row = (name: string, some: readonly Round[]) => {
  const bound = median(some.map(({ idle, step }) => 2 * idle + step));
  const times = [of(some, 'idle'), of(some, 'flooded'), of(some, 'step'), bound].map(
    (time) => `${formatNumber(time)} ms`,
  );
  return [name, ...times, formatNumber(overBound(some))];
};
const rows = [
  ['fair share', 'TTFT idle', 'TTFT behind the flood', 'step', 'twice idle and a step', 'ratio'],
  row('on', found[0]),
  row('off', found[1]),
];
console.log(`${machine}\n${formatTable(rows)}`);
if (options.write) {
  const what =
    `One user with ${flood} requests of ${promptTokens} prompt and ${outputTokens} output tokens, ${maxNumSeqs} of which run; ` +
    `another with a single one of ${promptTokens}. Medians of ${rounds} rounds in turn.`;
  writeBlock('scheduling.md', 'fairness', `${machine}. ${what}\n\n${markdownTable(rows)}`);
}
if (overBound(found[0]) > 1) process.exitCode = 1;
