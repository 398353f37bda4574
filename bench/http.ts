/**
 * Compares servers over HTTP with SSE, under one closed loop of streams: `node bench/run.mjs http -- --servers
 * sluice,llama,vllm --streams 16 --repeat 3`. Our engine without HTTP takes part under the same load, so that what HTTP
 * costs can be seen. The load generator shares the machine.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runLoad } from '../src/loadgen/run.js';
import { summarize } from '../src/loadgen/summary.js';
import { discoverModel, makeAgent, makeTarget } from '../src/loadgen/target.js';
import { Workload } from '../src/loadgen/workload.js';
import { runDriver } from './peers/drivers/main.js';
import { DriverProcess } from './peers/process.js';
import { defaultThreads, PEERS, type Setting } from './peers/registry.js';
import { ratioOf } from './peers/report.js';
import { DEFAULT_SERVERS, SERVERS } from './peers/servers.js';
import { promptsOf } from './peers/workload.js';
import { markdownTable, writeBlock } from './support/document.js';
import { describeMachine } from './support/machine.js';
import { readOptions } from './support/options.js';
import { results } from './support/paths.js';
import { formatNumber, formatTable, median } from './support/statistics.js';

/** A load's outcome: generated tokens over wall time, and what clients waited, in milliseconds. */
interface Outcome {
  readonly throughput: number;
  readonly ttft?: { readonly p50: number; readonly p99: number };
  readonly itl?: { readonly p50: number; readonly p99: number };
}

interface Side {
  readonly name: string;
  readonly driver: DriverProcess;
  load(round: string, requests: number): Promise<Outcome>;
  readonly outcomes: Outcome[];
}

interface Shape {
  readonly streams: number;
  readonly promptTokens: number;
  readonly newTokens: number;
}

async function serverSide(name: string, driver: DriverProcess, url: string, shape: Shape): Promise<Side> {
  const target = makeTarget(url, undefined);
  const fixed = (length: number) => ({ kind: 'uniform', low: length, high: length }) as const;
  const workload = new Workload({
    // The front end of llama.cpp has no list of models.
    model: await discoverModel(target).catch(() => 'model'),
    endpoint: 'completions',
    seed: 1,
    promptTokens: fixed(shape.promptTokens),
    outputTokens: fixed(shape.newTokens),
    sharedPrefixTokens: 0,
    promptAs: 'ids',
    tokenIds: { low: 1000, high: 20_000 },
    ignoreEos: true,
    continuousUsage: true,
    extraBody: {},
  });
  return {
    name,
    driver,
    outcomes: [],
    async load(round, requests) {
      const agent = makeAgent(target);
      const run = await runLoad(
        { kind: 'closed', concurrency: shape.streams },
        {
          ...{ target, agent, workload, seed: 1, limit: { requests } },
          ...{ timeout: 600_000, signal: new AbortController().signal },
        },
        round,
      );
      agent.destroy();
      const summary = summarize(run.records, run.own);
      const wanted = requests * shape.newTokens;
      if (summary.failed > 0 || summary.outputTokens !== wanted) {
        const reason = summary.errors[0]?.example ?? `${summary.outputTokens} tokens instead of ${wanted}`;
        throw new Error(`${name}: ${summary.failed} of ${requests} requests failed: ${reason}`);
      }
      const { ttft, itl } = summary.latencies;
      return { throughput: summary.outputThroughput, ...(ttft && { ttft }), ...(itl && { itl }) };
    },
  };
}

/** The load of `serverSide` on the engine itself. */
function engineSide(name: string, driver: DriverProcess, shape: Shape): Side {
  let round = 0;
  return {
    name,
    driver,
    outcomes: [],
    async load(_, requests) {
      const prompts = promptsOf(100 + round++, requests, shape.promptTokens);
      const { times } = await driver.run({ prompts, newTokens: shape.newTokens, concurrency: shape.streams });
      return { throughput: (requests * shape.newTokens) / Math.max(...times.map((sequence) => sequence.at(-1)!)) };
    },
  };
}

async function main(): Promise<void> {
  const options = readOptions({
    servers: { type: 'string', default: DEFAULT_SERVERS },
    streams: { type: 'string', default: '16' },
    /** Of each load and stream. */
    requests: { type: 'string', default: '4' },
    repeat: { type: 'string', default: '3' },
    threads: { type: 'string', default: String(defaultThreads) },
    'prompt-tokens': { type: 'string', default: '128' },
    'new-tokens': { type: 'string', default: '64' },
    out: { type: 'string', default: 'http' },
    /** Puts the table into docs/peers.md. */
    write: { type: 'boolean', default: false },
  });
  const shape: Shape = {
    streams: Number(options.streams),
    promptTokens: Number(options['prompt-tokens']),
    newTokens: Number(options['new-tokens']),
  };
  const setting: Setting = {
    threads: Number(options.threads),
    sequences: shape.streams,
    length: Math.max(256, shape.promptTokens + shape.newTokens),
  };
  const names = options.servers.split(',');
  const unknown = names.find((name) => !Object.hasOwn(SERVERS, name));
  if (unknown !== undefined) throw new Error(`"${unknown}" is none of ${Object.keys(SERVERS).join(', ')}`);

  const machine = describeMachine();
  const sides: Side[] = [];
  const missing: string[] = [];
  for (const peer of names.map((name) => SERVERS[name]!)) {
    try {
      const { driver, url, description } = await DriverProcess.start(peer.name, await peer.prepare(setting));
      console.error(`${peer.name}: ${description}`);
      sides.push(await serverSide(peer.name, driver, url!, shape));
    } catch (error) {
      missing.push(`${peer.name} is left out: ${error instanceof Error ? error.message : error}`);
    }
  }
  const engine = PEERS['sluice-int8']!;
  const started = await DriverProcess.start(engine.name, await engine.prepare(setting));
  sides.push(engineSide(`${engine.name}, no HTTP`, started.driver, shape));

  for (const side of sides) await side.load('warm-up', shape.streams);
  const requests = shape.streams * Number(options.requests);
  for (let round = 0; round < Number(options.repeat); round++) {
    const first = round % sides.length;
    for (const side of [...sides.slice(first), ...sides.slice(0, first)]) {
      await sleep(300);
      const outcome = await side.load(`round ${round}`, requests);
      side.outcomes.push(outcome);
      console.error(`round ${round + 1}: ${side.name} ${outcome.throughput.toFixed(0)} tokens/s`);
    }
  }
  for (const { driver } of sides) await driver.stop();

  const middle = (values: readonly (number | undefined)[]): string =>
    values.some((value) => value === undefined) ? '-' : formatNumber(median(values as number[]));
  const own = sides[0]!.outcomes.map(({ throughput }) => throughput);
  const rows = sides.map(({ name, outcomes }) => [
    name,
    middle(outcomes.map(({ throughput }) => throughput)),
    ratioOf(
      own,
      outcomes.map(({ throughput }) => throughput),
    ).toFixed(2),
    middle(outcomes.map(({ ttft }) => ttft?.p50)),
    middle(outcomes.map(({ ttft }) => ttft?.p99)),
    middle(outcomes.map(({ itl }) => itl?.p50)),
    middle(outcomes.map(({ itl }) => itl?.p99)),
  ]);
  const header = ['', 'tokens/s', `${sides[0]!.name} over it`, 'TTFT p50 ms', 'p99', 'ITL p50 ms', 'p99'];
  const table = [header, ...rows];
  const about =
    `${shape.streams} streams, ${shape.promptTokens} prompt + ${shape.newTokens} generated tokens, ` +
    `${requests} requests a round, ${setting.threads} threads, medians of ${options.repeat} rounds. ${machine}.`;
  const text = [about, formatTable(table), ...missing].join('\n\n');
  console.log(text);
  await mkdir(results, { recursive: true });
  await writeFile(join(results, `${options.out}.txt`), `${text}\n`);
  const rounds = sides.map(({ name, outcomes }) => ({ name, outcomes }));
  await writeFile(join(results, `${options.out}.json`), JSON.stringify({ setting, shape, rounds }));
  if (options.write) writeBlock('peers.md', 'http', [about, markdownTable(table), ...missing].join('\n\n'));
}

await runDriver();
await main();
