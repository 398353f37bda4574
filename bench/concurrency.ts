/**
 * How much more 16 streams get done together than one alone, in the default precision and in fp32: `node bench/run.mjs
 * concurrency`. Both loads are measured in turn, round by round, so that a drift of the machine hits both; ends with
 * code 1 where the median ratio is below 4.
 */
import { join } from 'node:path';
import { startOwnServer } from '../src/cli/own-server.js';
import { runLoad } from '../src/loadgen/run.js';
import { summarize } from '../src/loadgen/summary.js';
import { discoverModel, makeAgent, makeTarget } from '../src/loadgen/target.js';
import { Workload } from '../src/loadgen/workload.js';
import { describeMachine } from './support/machine.js';
import { readNumbers, readOptions } from './support/options.js';
import { root } from './support/paths.js';
import { formatTable, median } from './support/statistics.js';

const options = readOptions({
  precisions: { type: 'string', default: 'auto,fp32' },
  streams: { type: 'string', default: '16' },
  rounds: { type: 'string', default: '3' },
  'prompt-tokens': { type: 'string', default: '32' },
  'output-tokens': { type: 'string', default: '64' },
});
const [streams = 0] = readNumbers(options.streams);
const [rounds = 0] = readNumbers(options.rounds);
const [promptTokens = 0] = readNumbers(options['prompt-tokens']);
const [outputTokens = 0] = readNumbers(options['output-tokens']);
const least = 4;

/** Output tokens a second of one stream and of all, by round. */
interface Throughputs {
  readonly one: number[];
  readonly all: number[];
}

async function measure(url: string): Promise<Throughputs> {
  const target = makeTarget(url, undefined);
  const agent = makeAgent(target);
  const workload = new Workload({
    model: await discoverModel(target),
    endpoint: 'completions',
    seed: 1,
    promptTokens: { kind: 'uniform', low: promptTokens, high: promptTokens },
    outputTokens: { kind: 'uniform', low: outputTokens, high: outputTokens },
    sharedPrefixTokens: 0,
    promptAs: 'ids',
    tokenIds: { low: 1000, high: 20_000 },
    ignoreEos: true,
    continuousUsage: true,
    extraBody: { temperature: 0 },
  });
  const signal = new AbortController().signal;
  const throughput = async (concurrency: number, requests: number, phase: string): Promise<number> => {
    const shared = { target, agent, workload, seed: 1, timeout: 3_600_000, signal };
    const { records, own } = await runLoad({ kind: 'closed', concurrency }, { ...shared, limit: { requests } }, phase);
    const { failed, outputThroughput } = summarize(records, own);
    if (failed > 0) throw new Error(`${failed} requests failed`);
    return outputThroughput;
  };
  await throughput(streams, streams, 'warm-up');
  const found: Throughputs = { one: [], all: [] };
  for (let round = 1; round <= rounds; round++) {
    found.one.push(await throughput(1, 2, `one stream, round ${round}`));
    found.all.push(await throughput(streams, 2 * streams, `all streams, round ${round}`));
  }
  agent.destroy();
  return found;
}

console.log(`${describeMachine()}; ${promptTokens} prompt and ${outputTokens} output tokens a request\n`);
const rows = [['precision', '1 stream, tokens/s', `${streams} streams, tokens/s`, 'ratio', 'of each round']];
for (const precision of options.precisions.split(',')) {
  const server = await startOwnServer(
    ['--precision', precision, '--log-level', 'warn'],
    join(root, 'dist/cli/main.js'),
  );
  try {
    const { one, all } = await measure(server.url);
    const ratios = all.map((value, round) => value / one[round]!);
    const ratio = median(ratios);
    const each = ratios.map((value) => value.toFixed(1)).join(' ');
    rows.push([precision, median(one).toFixed(1), median(all).toFixed(1), ratio.toFixed(1), each]);
    if (ratio < least) process.exitCode = 1;
  } finally {
    await server.stop();
  }
}
console.log(formatTable(rows));
