/**
 * What metrics and the log cost: `node bench/run.mjs overhead` after `npm run build`. Two servers of the same build, one
 * with metrics and a line of log for each request, one without either, get the same short load in turn, in the order
 * A B B A so that a drift of the machine hits both alike. Ends with code 1 when the median loss is 1 % or more, and says
 * how far rounds of one kind differ among themselves: a loss below that is none that could be seen.
 */
import { join } from 'node:path';
import { type OwnServer, startOwnServer } from '../src/cli/own-server.js';
import { runLoad } from '../src/loadgen/run.js';
import { summarize } from '../src/loadgen/summary.js';
import { discoverModel, makeAgent, makeTarget, type Target } from '../src/loadgen/target.js';
import { Workload } from '../src/loadgen/workload.js';
import { writeBlock } from './support/document.js';
import { describeMachine } from './support/machine.js';
import { readNumbers, readOptions } from './support/options.js';
import { root } from './support/paths.js';
import { median } from './support/statistics.js';

const options = readOptions({
  rounds: { type: 'string', default: '20' },
  streams: { type: 'string', default: '16' },
  'output-tokens': { type: 'string', default: '64' },
  write: { type: 'boolean', default: false },
});
const [rounds = 0] = readNumbers(options.rounds);
const [streams = 0] = readNumbers(options.streams);
const [outputTokens = 0] = readNumbers(options['output-tokens']);
const limit = 0.01;

class Side {
  readonly throughputs: number[] = [];
  readonly #target: Target;
  readonly #agent: ReturnType<typeof makeAgent>;

  constructor(readonly server: OwnServer) {
    this.#target = makeTarget(server.url, undefined);
    this.#agent = makeAgent(this.#target);
  }

  /** Offers the load of a round, the same to both sides; output tokens a second. */
  async run(round: number): Promise<number> {
    const workload = new Workload({
      model: await discoverModel(this.#target),
      endpoint: 'completions',
      seed: round,
      promptTokens: { kind: 'uniform', low: 16, high: 16 },
      outputTokens: { kind: 'uniform', low: outputTokens, high: outputTokens },
      sharedPrefixTokens: 0,
      promptAs: 'ids',
      tokenIds: { low: 1000, high: 20_000 },
      ignoreEos: true,
      continuousUsage: true,
      extraBody: { temperature: 0 },
    });
    const shared = { target: this.#target, agent: this.#agent, workload, seed: round, timeout: 600_000 };
    const signal = new AbortController().signal;
    const load = { kind: 'closed', concurrency: streams } as const;
    const { records, own } = await runLoad(load, { ...shared, signal, limit: { requests: 2 * streams } });
    const { outputThroughput, failed } = summarize(records, own);
    if (failed > 0) throw new Error(`${failed} requests failed`);
    return outputThroughput;
  }

  async stop(): Promise<void> {
    this.#agent.destroy();
    await this.server.stop();
  }
}

const machine = describeMachine();
const main = join(root, 'dist/cli/main.js');
const measured = new Side(await startOwnServer([], main));
const bare = new Side(await startOwnServer(['--no-metrics', '--log-level', 'silent'], main));
try {
  await measured.run(0);
  await bare.run(0);
  const losses: number[] = [];
  for (let round = 1; round <= rounds; round++) {
    const order = round % 2 === 0 ? [measured, bare] : [bare, measured];
    for (const side of order) side.throughputs.push(await side.run(round));
    losses.push(1 - measured.throughputs.at(-1)! / bare.throughputs.at(-1)!);
    process.stdout.write(`\r${round} of ${rounds} rounds, median loss ${percent(median(losses))}   `);
  }
  const loss = median(losses);
  // Of the median: 1.25 times the standard error of a mean, with a robust estimate of the deviation.
  const deviation = 1.4826 * median(losses.map((value) => Math.abs(value - loss)));
  const error = (1.2533 * deviation) / Math.sqrt(losses.length);
  const text =
    `${streams} streams, ${rounds} rounds: ${median(measured.throughputs).toFixed(1)} tokens/s with metrics and log, ` +
    `${median(bare.throughputs).toFixed(1)} without; the median loss is ${percent(loss)} ± ${percent(error)}.`;
  console.log(`\n${text}\n${machine}`);
  if (options.write) writeBlock('performance.md', 'overhead', `${text} ${machine}.`);
  if (loss >= limit) process.exitCode = 1;
} finally {
  await measured.stop();
  await bare.stop();
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)} %`;
}
