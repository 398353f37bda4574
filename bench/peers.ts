/**
 * Compares engines on this machine: `node bench/run.mjs peers -- --peers sluice-int8,llama-q4_0 --streams 1,4,16,32
 * --repeat 3`. See bench/README.md for what is measured and how.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { agreement, compare, type Engine, warmUp } from './peers/compare.js';
import { runDriver } from './peers/drivers/main.js';
import { drawComparison } from './peers/plot.js';
import { DriverProcess } from './peers/process.js';
import { DEFAULT_PEERS, defaultThreads, PEERS } from './peers/registry.js';
import { measuresOf, noiseTable, rateTable, ratioTable } from './peers/report.js';
import { cellsOf } from './peers/workload.js';
import { readNumbers, readOptions } from './support/options.js';
import { results } from './support/paths.js';
import { formatTable } from './support/statistics.js';

async function main(): Promise<void> {
  const options = readOptions({
    peers: { type: 'string', default: DEFAULT_PEERS },
    streams: { type: 'string', default: '1,4,16,32' },
    repeat: { type: 'string', default: '3' },
    threads: { type: 'string', default: String(defaultThreads) },
    'prompt-tokens': { type: 'string', default: '128' },
    'new-tokens': { type: 'string', default: '64' },
    /** Leaves out the comparison of answers with the reference. */
    'no-agreement': { type: 'boolean', default: false },
    /** Name of the files in bench/results. */
    out: { type: 'string', default: 'peers' },
  });
  const cells = cellsOf({
    streams: readNumbers(options.streams),
    promptTokens: Number(options['prompt-tokens']),
    newTokens: Number(options['new-tokens']),
  });
  const setting = {
    threads: Number(options.threads),
    sequences: Math.max(...cells.map(({ streams }) => streams)),
    // At least as long as the reference's prompts and answers.
    length: Math.max(256, ...cells.map((cell) => cell.promptTokens + cell.newTokens)),
  };

  // All are made ready before the first is started, since making ready takes all processors.
  const prepared = [];
  const missing: string[][] = [];
  for (const name of options.peers.split(',')) {
    const peer = Object.hasOwn(PEERS, name) ? PEERS[name] : undefined;
    if (peer === undefined) throw new Error(`"${name}" is none of ${Object.keys(PEERS).join(', ')}`);
    try {
      prepared.push({ peer, command: await peer.prepare(setting) });
    } catch (error) {
      missing.push([peer.name, reasonOf(error)]);
    }
  }
  const engines: Engine[] = [];
  const about: string[][] = [];
  for (const { peer, command } of prepared) {
    const start = performance.now();
    try {
      const { driver, description } = await DriverProcess.start(peer.name, command);
      const started = `started in ${((performance.now() - start) / 1000).toFixed(1)} s`;
      console.error(`${peer.name}: ${description}, ${started}`);
      about.push([peer.name, description]);
      engines.push({ name: peer.name, ours: peer.ours, driver });
    } catch (error) {
      missing.push([peer.name, reasonOf(error)]);
    }
  }
  for (const [name, reason] of missing) console.error(`${name} is left out: ${reason}`);
  if (engines.length === 0) throw new Error('no engine could be started');

  const facts = [['', 'tokens like fp32', 'peak memory']];
  for (const { name, driver } of engines) {
    const answers = options['no-agreement'] ? undefined : await agreement(driver);
    await warmUp(driver, cells);
    facts.push([
      name,
      answers === undefined ? '-' : `${answers.matched} of ${answers.of}`,
      `${(driver.peakMemory / 2 ** 20).toFixed(0)} MiB`,
    ]);
  }
  const measures = measuresOf(cells);
  const samples = await compare(engines, cells, Number(options.repeat), ({ engine, cell, round, figures }) => {
    const rate = figures.decode ?? figures.prefill;
    console.error(`round ${round + 1}, ${cell}: ${engine} ${rate.toFixed(0)} tokens/s`);
  });
  await Promise.all(engines.map(({ driver }) => driver.stop()));

  const names = engines.map(({ name }) => name);
  const others = engines.filter(({ ours }) => !ours).map(({ name }) => name);
  const title = `${cells[0]!.promptTokens} prompt + ${options['new-tokens']} generated tokens, ${setting.threads} threads`;
  const parts = [
    `${title}, medians of ${options.repeat} rounds, ${cpus()[0]?.model.trim() ?? 'unknown processor'}`,
    rateTable(samples, names, measures),
    ...engines
      .filter(({ ours }) => ours && others.length > 0)
      .map(({ name }) => ratioTable(samples, name, others, measures)),
    formatTable(facts),
    noiseTable(samples, names, cpus().length),
    ...missing.map(([name, reason]) => `${name} is left out: ${reason}`),
  ];
  console.log(parts.join('\n\n'));

  await mkdir(results, { recursive: true });
  await writeFile(join(results, `${options.out}.txt`), `${parts.join('\n\n')}\n`);
  await writeFile(join(results, `${options.out}.json`), JSON.stringify({ setting, about, missing, cells, samples }));
  await writeFile(join(results, `${options.out}.svg`), drawComparison(title, samples, engines, measures));
  console.error(`written to ${join(results, options.out)}.{txt,json,svg}`);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

await runDriver();
await main();
