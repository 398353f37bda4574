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
import { markdownTable, writeBlock } from './support/document.js';
import { describeMachine } from './support/machine.js';
import { readNumbers, readOptions } from './support/options.js';
import { results, root } from './support/paths.js';
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
    /** Puts tables and plot into docs/peers.md. */
    write: { type: 'boolean', default: false },
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

  const machine = describeMachine();
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
  const descriptions: string[][] = [];
  for (const { peer, command } of prepared) {
    const start = performance.now();
    try {
      const { driver, description } = await DriverProcess.start(peer.name, command);
      const started = `started in ${((performance.now() - start) / 1000).toFixed(1)} s`;
      console.error(`${peer.name}: ${description}, ${started}`);
      descriptions.push([peer.name, description]);
      // An engine that is named twice competes with itself, which shows the noise.
      const twins = engines.filter(({ name }) => name.startsWith(peer.name)).length;
      const name = twins === 0 ? peer.name : `${peer.name} (${twins + 1})`;
      engines.push({ name, ours: peer.ours, driver });
    } catch (error) {
      missing.push([peer.name, reasonOf(error)]);
    }
  }
  for (const [name, reason] of missing) console.error(`${name} is left out: ${reason}`);
  if (engines.length === 0) throw new Error('no engine could be started');

  const facts = [['', 'tokens like fp32', 'memory at the end']];
  for (const { name, driver } of engines) {
    const answers = options['no-agreement'] ? undefined : await agreement(driver);
    await warmUp(driver, cells);
    facts.push([
      name,
      answers === undefined ? '-' : `${answers.matched} of ${answers.of}`,
      `${(driver.memory / 2 ** 20).toFixed(0)} MiB`,
    ]);
  }
  const measures = measuresOf(cells);
  const samples = await compare(engines, cells, Number(options.repeat), ({ engine, cell, round, figures }) => {
    const rate = figures.decode ?? figures.prefill;
    console.error(`round ${round + 1}, ${cell}: ${engine} ${rate.toFixed(0)} tokens/s`);
  });
  await Promise.all(engines.map(({ driver }) => driver.stop()));

  const names = engines.map(({ name }) => name);
  const ours = engines.filter((engine) => engine.ours).map(({ name }) => name);
  const others = names.filter((name) => !ours.includes(name));
  const title = `${cells[0]!.promptTokens} prompt + ${options['new-tokens']} generated tokens, ${setting.threads} threads`;
  const about = `${title}, medians of ${options.repeat} rounds. ${machine}.`;
  const tables = [
    rateTable(samples, names, measures),
    ...(others.length > 0 ? ours : ours.slice(0, 1)).flatMap((name) => {
      const rivals = others.length > 0 ? others : ours.slice(1);
      return rivals.length > 0 ? [ratioTable(samples, name, rivals, measures)] : [];
    }),
    facts,
    noiseTable(samples, names, cpus().length),
  ];
  const gaps = missing.map(([name, reason]) => `${name} is left out: ${reason}`);
  const text = [about, ...tables.map(formatTable), ...gaps].join('\n\n');
  const plot = drawComparison(title, samples, engines, measures);
  console.log(text);

  await mkdir(results, { recursive: true });
  const save = (extension: string, content: string) => writeFile(join(results, `${options.out}.${extension}`), content);
  await save('txt', `${text}\n`);
  await save('json', JSON.stringify({ setting, descriptions, missing, cells, samples }));
  await save('svg', plot);
  console.error(`written to ${join(results, options.out)}.{txt,json,svg}`);
  if (options.write) {
    await writeFile(join(root, 'docs', 'images', 'peers.svg'), plot);
    const picture = '![Tokens a second of each engine](images/peers.svg)';
    writeBlock('peers.md', 'peers', [about, picture, ...tables.map(markdownTable), ...gaps].join('\n\n'));
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

await runDriver();
await main();
