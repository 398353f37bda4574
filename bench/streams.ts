/**
 * Latency and throughput of the bundled model for 1, 4, 16 and 64 streams at once: `node bench/run.mjs streams`;
 * `--write` puts table and figure into docs/performance.md. The load tester shares the machine.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { startOwnServer } from '../src/cli/own-server.js';
import { latencyPlot } from '../src/loadgen/report/latency-plot.js';
import { renderReport } from '../src/loadgen/report/page.js';
import { benchResult, type LoadResult, loadResult, writeResult } from '../src/loadgen/result.js';
import { runLoad } from '../src/loadgen/run.js';
import { formatLoad, formatNumber } from '../src/loadgen/table.js';
import { discoverModel, makeAgent, makeTarget } from '../src/loadgen/target.js';
import { Workload } from '../src/loadgen/workload.js';
import { markdownTable, writeBlock } from './support/document.js';
import { figure } from './support/figure.js';
import { describeMachine } from './support/machine.js';
import { readNumbers, readOptions } from './support/options.js';
import { results, root } from './support/paths.js';

const options = readOptions({
  streams: { type: 'string', default: '1,4,16,64' },
  'prompt-tokens': { type: 'string', default: '128' },
  'output-tokens': { type: 'string', default: '128' },
  // Of each load: so many requests for each stream, at least 16 in all.
  'requests-per-stream': { type: 'string', default: '4' },
  write: { type: 'boolean', default: false },
});
const streams = readNumbers(options.streams);
const [promptTokens = 0] = readNumbers(options['prompt-tokens']);
const [outputTokens = 0] = readNumbers(options['output-tokens']);
const [perStream = 0] = readNumbers(options['requests-per-stream']);
const seed = 1;

async function measure(url: string): Promise<{ model: string; loads: LoadResult[] }> {
  const target = makeTarget(url, undefined);
  const model = await discoverModel(target);
  const agent = makeAgent(target);
  const workload = new Workload({
    model,
    endpoint: 'completions',
    seed,
    promptTokens: { kind: 'uniform', low: promptTokens, high: promptTokens },
    outputTokens: { kind: 'uniform', low: outputTokens, high: outputTokens },
    sharedPrefixTokens: 0,
    promptAs: 'ids',
    tokenIds: { low: 1000, high: 20_000 },
    ignoreEos: true,
    continuousUsage: true,
    extraBody: { temperature: 0 },
  });
  const shared = { target, agent, workload, seed, timeout: 3_600_000, signal: new AbortController().signal };
  const most = Math.max(...streams);
  await runLoad({ kind: 'closed', concurrency: most }, { ...shared, limit: { requests: most } }, 'warm-up');
  const loads: LoadResult[] = [];
  for (const concurrency of streams) {
    const limit = { requests: Math.max(16, perStream * concurrency) };
    const load = loadResult(await runLoad({ kind: 'closed', concurrency }, { ...shared, limit }));
    console.log(`${formatLoad(load)}\n`);
    if (load.summary.failed > 0) throw new Error(`${load.summary.failed} requests failed`);
    loads.push(load);
  }
  agent.destroy();
  return { model, loads };
}

function table(loads: readonly LoadResult[]): string {
  const header = [
    ...['streams', 'output tokens/s', 'requests/s', 'TTFT p50', 'p95', 'p99'],
    ...['TPOT p50', 'p95', 'p99', 'ITL p50', 'p99'],
  ];
  const rows = loads.map(({ load, summary }) => {
    const { ttft, tpot, itl } = summary.latencies;
    const times = [ttft!.p50, ttft!.p95, ttft!.p99, tpot!.p50, tpot!.p95, tpot!.p99, itl!.p50, itl!.p99];
    return [
      load.kind === 'closed' ? String(load.concurrency) : '',
      formatNumber(summary.outputThroughput),
      formatNumber(summary.requestThroughput),
      ...times.map((time) => `${formatNumber(time)} ms`),
    ];
  });
  return markdownTable([header, ...rows]);
}

const machine = describeMachine();
const server = await startOwnServer(['--log-level', 'warn'], join(root, 'dist/cli/main.js'));
try {
  const { model, loads } = await measure(server.url);
  mkdirSync(results, { recursive: true });
  const result = benchResult(model, { streams, promptTokens, outputTokens, seed }, loads);
  await writeResult(join(results, 'streams.json'), result);
  writeFileSync(join(results, 'streams.html'), renderReport(result));
  console.log(`${machine}\n\n${table(loads)}\n\nmore in ${relative(process.cwd(), results)}/streams.{json,html}`);
  if (options.write) {
    const plots = [latencyPlot(loads, 'ttft'), latencyPlot(loads, 'itl')].filter((plot) => plot !== undefined);
    const title = 'TTFT and ITL against throughput, for each number of streams';
    writeFileSync(join(root, 'docs/images/streams.svg'), figure(title, plots));
    const requests = loads.map(({ summary }) => summary.completed).join(', ');
    const how = `${promptTokens} prompt tokens, ${outputTokens} output tokens, ${requests} requests.`;
    const picture = `![${title}](images/streams.svg)`;
    writeBlock('performance.md', 'streams', `${machine}. ${how}\n\n${table(loads)}\n\n${picture}`);
  }
} finally {
  await server.stop();
}
