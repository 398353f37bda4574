/**
 * Batching policies under one Poisson trace at rising rates: `node bench/run.mjs policies`; `--write` puts table and
 * figure into docs/scheduling.md. Rates are multiples of what one request at a time can serve, which is measured first.
 * For each rate the policies take their turns, each on a server of its own.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type OwnServer, startOwnServer } from '../src/cli/own-server.js';
import type { Load } from '../src/loadgen/load.js';
import { runLoad } from '../src/loadgen/run.js';
import { type LoadSummary, summarize } from '../src/loadgen/summary.js';
import { discoverModel, makeAgent, makeTarget } from '../src/loadgen/target.js';
import { Workload } from '../src/loadgen/workload.js';
import { markdownTable, writeBlock } from './support/document.js';
import { describeMachine } from './support/machine.js';
import { readNumbers, readOptions } from './support/options.js';
import { results, root } from './support/paths.js';
import { type Point, policyFigure } from './support/policy-figure.js';
import { formatNumber, formatTable } from './support/statistics.js';

const options = readOptions({
  // In percent of what one at a time serves.
  rates: { type: 'string', default: '50,100,200,400,800' },
  requests: { type: 'string', default: '96' },
  'prompt-tokens': { type: 'string', default: '64' },
  'output-tokens': { type: 'string', default: '48' },
  'max-num-seqs': { type: 'string', default: '32' },
  write: { type: 'boolean', default: false },
});
const rates = readNumbers(options.rates).sort((a, b) => a - b);
const [requests = 0] = readNumbers(options.requests);
const [promptTokens = 0] = readNumbers(options['prompt-tokens']);
const [outputTokens = 0] = readNumbers(options['output-tokens']);
const policies = ['none', 'static', 'dynamic', 'continuous'] as const;

async function measure(server: OwnServer, load: Load, limit: number): Promise<LoadSummary> {
  const target = makeTarget(server.url, undefined);
  const agent = makeAgent(target);
  const workload = new Workload({
    model: await discoverModel(target),
    endpoint: 'completions',
    seed: 1,
    promptTokens: { kind: 'uniform', low: Math.ceil(promptTokens / 2), high: promptTokens * 2 },
    outputTokens: { kind: 'uniform', low: Math.ceil(outputTokens / 2), high: outputTokens * 2 },
    sharedPrefixTokens: 0,
    promptAs: 'ids',
    tokenIds: { low: 1000, high: 20_000 },
    ignoreEos: true,
    continuousUsage: true,
    extraBody: { temperature: 0 },
  });
  const signal = new AbortController().signal;
  const shared = { target, agent, workload, seed: 1, timeout: 3_600_000, signal };
  const { records, own } = await runLoad(load, { ...shared, limit: { requests: limit } }, String(load.kind));
  agent.destroy();
  const summary = summarize(records, own);
  if (summary.failed > 0) throw new Error(`${summary.failed} requests failed`);
  return summary;
}

const machine = describeMachine();
const servers: OwnServer[] = [];
const points: Point[] = [];
try {
  for (const policy of policies) {
    const flags = ['--batching', policy, '--max-num-seqs', options['max-num-seqs'], '--no-enable-prefix-caching'];
    const more = ['--kv-cache-memory', '256MiB', '--log-level', 'warn', '--port', '0'];
    servers.push(await startOwnServer([...flags, ...more], join(root, 'dist/cli/main.js')));
  }
  for (const server of servers) await measure(server, { kind: 'closed', concurrency: 1 }, 2);
  const { requestThroughput: base } = await measure(servers[0]!, { kind: 'closed', concurrency: 1 }, 8);
  console.log(`${machine}\none at a time: ${formatNumber(base)} requests/s`);
  for (const percent of rates) {
    const rate = (base * percent) / 100;
    for (const [i, policy] of policies.entries()) {
      const load = { kind: 'open', rate, arrival: { kind: 'poisson' } } as const;
      const summary = await measure(servers[i]!, load, requests);
      points.push({ policy, rate, summary });
      console.log(formatTable([[policy, ...cells(points.at(-1)!)]]));
    }
  }
} finally {
  await Promise.all(servers.map((server) => server.stop()));
}

function cells({ rate, summary }: Point): string[] {
  const { ttft, tpot } = summary.latencies;
  const times = [ttft!.p50, ttft!.p95, ttft!.p99, tpot!.p99].map((time) => `${formatNumber(time)} ms`);
  return [
    formatNumber(rate),
    formatNumber(summary.requestThroughput),
    formatNumber(summary.outputThroughput),
    ...times,
  ];
}

const header = ['policy', 'offered requests/s', 'served', 'output tokens/s', 'TTFT p50', 'p95', 'p99', 'TPOT p99'];
const table = [header, ...points.map((point) => [point.policy, ...cells(point)])];
const groups = rates.map((_, i) => points.slice(i * policies.length, (i + 1) * policies.length));
const lowest = groups.filter((group) => {
  const p99 = (point: Point) => point.summary.latencies.ttft!.p99;
  return group.every((point) => p99(point) >= p99(group.at(-1)!));
}).length;
// Within a rate, since the machine's speed drifts from one to the next.
const highest = groups.at(-1)!;
const ratio = highest.at(-1)!.summary.outputThroughput / highest[0]!.summary.outputThroughput;
const verdict =
  `Continuous batching gets ${formatNumber(ratio)} times as much done as one request at a time at the highest rate, and has the ` +
  `lowest p99 of TTFT at ${lowest} of ${rates.length} rates.`;
console.log(`\n${formatTable(table)}\n${verdict}`);
mkdirSync(results, { recursive: true });
writeFileSync(join(results, 'policies.json'), `${JSON.stringify({ machine, points }, undefined, 2)}\n`);
if (options.write) {
  writeFileSync(join(root, 'docs/images/policies.svg'), policyFigure(points));
  const what =
    `${requests} requests at each rate, ${Math.ceil(promptTokens / 2)} to ${promptTokens * 2} prompt and ` +
    `${Math.ceil(outputTokens / 2)} to ${outputTokens * 2} output tokens, at most ${options['max-num-seqs']} at once.`;
  const picture = '![Throughput and TTFT of each policy against the rate of requests](images/policies.svg)';
  writeBlock('scheduling.md', 'policies', `${machine}. ${what}\n\n${markdownTable(table)}\n\n${picture}\n\n${verdict}`);
}
