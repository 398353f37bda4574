/**
 * What metrics and the log cost: `node bench/run.mjs overhead`. Two servers of the same build, one with metrics and a
 * line of log for each request, one without either, get the same short load in turn, in the order A B B A so that a
 * drift of the machine hits both alike. Tells the loss of throughput and the growth of processor time a token, each as
 * the median of the rounds with its error, and ends with code 1 when a loss of 1 % or more is certain, that is, beyond
 * twice the error. `--same` gives both servers the same options: what it shows then is the machine's noise.
 */
import { readFileSync } from 'node:fs';
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
  same: { type: 'boolean', default: false },
  write: { type: 'boolean', default: false },
});
const [rounds = 0] = readNumbers(options.rounds);
const [streams = 0] = readNumbers(options.streams);
const [outputTokens = 0] = readNumbers(options['output-tokens']);
const limit = 0.01;

class Side {
  /** Of each round: output tokens a second, and processor seconds a token. */
  readonly throughputs: number[] = [];
  readonly costs: number[] = [];
  readonly #target: Target;
  readonly #agent: ReturnType<typeof makeAgent>;

  constructor(readonly server: OwnServer) {
    this.#target = makeTarget(server.url, undefined);
    this.#agent = makeAgent(this.#target);
  }

  /** Offers the load of a round, the same to both sides. */
  async run(round: number): Promise<void> {
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
    const before = processorSeconds(this.server.pid);
    const { records, own } = await runLoad(load, { ...shared, signal, limit: { requests: 2 * streams } });
    const used = processorSeconds(this.server.pid) - before;
    const { outputThroughput, outputTokens: tokens, failed } = summarize(records, own);
    if (failed > 0) throw new Error(`${failed} requests failed`);
    this.throughputs.push(outputThroughput);
    this.costs.push(used / tokens);
  }

  async stop(): Promise<void> {
    this.#agent.destroy();
    await this.server.stop();
  }
}

const machine = describeMachine();
const main = join(root, 'dist/cli/main.js');
const measured = new Side(await startOwnServer([], main));
const bare = new Side(await startOwnServer(options.same ? [] : ['--no-metrics', '--log-level', 'silent'], main));
try {
  for (const side of [measured, bare]) {
    await side.run(0);
    side.throughputs.pop();
    side.costs.pop();
  }
  for (let round = 1; round <= rounds; round++) {
    for (const side of round % 2 === 0 ? [measured, bare] : [bare, measured]) await side.run(round);
    process.stdout.write(`\r${round} of ${rounds} rounds`);
  }
  const loss = estimate(measured.throughputs.map((value, round) => 1 - value / bare.throughputs[round]!));
  const growth = estimate(measured.costs.map((value, round) => value / bare.costs[round]! - 1));
  const text =
    `${streams} streams, ${rounds} rounds: ${median(measured.throughputs).toFixed(1)} tokens/s with metrics and log, ` +
    `${median(bare.throughputs).toFixed(1)} without, a loss of ${percent(loss)}; ` +
    `processor time a token grows by ${percent(growth)}.`;
  console.log(`\n${text}\n${machine}`);
  if (options.write) writeBlock('performance.md', 'overhead', `${text} ${machine}.`);
  if (loss.value - 2 * loss.error >= limit) process.exitCode = 1;
} finally {
  await measured.stop();
  await bare.stop();
}

interface Estimate {
  readonly value: number;
  readonly error: number;
}

/** The median, and its standard error: 1.25 times that of a mean, with a robust estimate of the deviation. */
function estimate(values: readonly number[]): Estimate {
  const value = median(values);
  const deviation = 1.4826 * median(values.map((other) => Math.abs(other - value)));
  return { value, error: (1.2533 * deviation) / Math.sqrt(values.length) };
}

function percent({ value, error }: Estimate): string {
  return `${(value * 100).toFixed(2)} ± ${(error * 100).toFixed(2)} %`;
}

/** Of all threads of a process; proc_pid_stat(5), in clock ticks of 10 ms. */
function processorSeconds(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const [user, system] = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  return (Number(user) + Number(system)) / 100;
}
