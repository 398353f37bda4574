/** `sluice bench`: offers load to an OpenAI-compatible server and reports what it measured. */
import { writeFile } from 'node:fs/promises';
import { Command, InvalidArgumentError, Option } from 'commander';
import { UserError } from '../errors.js';
import { formatComparison } from '../loadgen/compare.js';
import { parseLengths } from '../loadgen/lengths.js';
import { type ArrivalProcess, type Load, loadLabel, parseConcurrencies, parseRates } from '../loadgen/load.js';
import { startProgress } from '../loadgen/progress.js';
import { readPromptFile } from '../loadgen/prompt-file.js';
import { benchResult, type LoadResult, loadResult, readResult, writeResult } from '../loadgen/result.js';
import { type RunOptions, runLoad } from '../loadgen/run.js';
import { parseSlo } from '../loadgen/slo.js';
import { formatLoad, formatOverview } from '../loadgen/table.js';
import { discoverModel, makeAgent, makeTarget } from '../loadgen/target.js';
import { parseDuration } from '../loadgen/units.js';
import { Workload } from '../loadgen/workload.js';

interface BenchOptions {
  readonly baseUrl?: string;
  readonly model?: string;
  readonly endpoint: 'completions' | 'chat';
  readonly apiKey?: string;
  readonly header: readonly string[];
  readonly concurrency?: string;
  readonly requestRate?: string;
  readonly arrival: 'poisson' | 'bursty';
  readonly burstiness: number;
  readonly numRequests?: number;
  readonly duration?: string;
  readonly warmup: number;
  readonly seed: number;
  readonly promptTokens: string;
  readonly outputTokens: string;
  readonly sharedPrefixTokens: number;
  readonly promptAs: 'ids' | 'words';
  readonly tokenIds: string;
  readonly prompts?: string;
  readonly ignoreEos: boolean;
  readonly continuousUsage: boolean;
  readonly extraBody?: string;
  readonly timeout: string;
  readonly slo?: string;
  readonly json?: string;
  readonly report?: string;
}

const wholeNumber = (text: string): number => {
  const value = Number(text);
  if (text.trim() === '' || !Number.isInteger(value) || value < 0)
    throw new InvalidArgumentError('Not a whole number.');
  return value;
};

const positiveNumber = (text: string): number => {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new InvalidArgumentError('Not a positive number.');
  return value;
};

export function benchCommand(): Command {
  return new Command('bench')
    .description('Offer load to an OpenAI-compatible server and measure TTFT, TPOT, ITL, latency and throughput')
    .option('--base-url <url>', 'the server, with or without /v1')
    .option('--model <name>', "default: the server's first model")
    .addOption(new Option('--endpoint <name>', 'what to call').choices(['completions', 'chat']).default('completions'))
    .option('--api-key <key>', 'sent as a bearer token')
    .option(
      '--header <name: value>',
      'a further header; may be given again',
      (item, all: string[]) => [...all, item],
      [],
    )
    .option('--concurrency <list>', 'closed loop: so many requests at once, each number a load of its own, as 1,4,16')
    .option('--request-rate <list>', 'open loop: so many requests a second, each number a load of its own, or inf')
    .addOption(new Option('--arrival <process>', 'of the open loop').choices(['poisson', 'bursty']).default('poisson'))
    .option(
      '--burstiness <shape>',
      'shape of the gamma distribution of bursty gaps; less than 1 is bursty',
      positiveNumber,
      0.5,
    )
    .option('--num-requests <n>', 'requests of each load; default: 4 for each at once, 16 at least', wholeNumber)
    .option('--duration <time>', 'send requests for so long instead, as 30s; those on their way are waited for')
    .option('--warmup <n>', 'requests before the first load, not measured', wholeNumber, 2)
    .option('--seed <n>', 'of prompts, lengths and arrivals', wholeNumber, 0)
    .option('--prompt-tokens <lengths>', '128, 64-512 (uniform) or normal:256,64 (mean, deviation)', '128')
    .option('--output-tokens <lengths>', 'max_tokens, in the same forms', '128')
    .option('--shared-prefix-tokens <n>', 'put so many tokens, the same for all, before each prompt', wholeNumber, 0)
    .addOption(
      new Option('--prompt-as <form>', 'synthetic prompts for completions').choices(['ids', 'words']).default('ids'),
    )
    .option('--token-ids <range>', 'token ids of synthetic prompts', '1000-20000')
    .option(
      '--prompts <file>',
      'JSON lines: a string, {"prompt": ...} or {"messages": [...]}, objects with max_tokens or not',
    )
    .option('--ignore-eos', 'ask for answers of exactly max_tokens', false)
    .option('--no-continuous-usage', 'do not ask for token counts on every chunk (for servers that refuse)')
    .option('--extra-body <json>', 'keys to add to every request')
    .option('--timeout <time>', 'for one request', '10m')
    .option('--slo <objective>', 'for goodput, as ttft:200ms,tpot:50ms; also e2e')
    .option('--json <file>', 'write everything measured')
    .option('--report <file>', 'write an HTML page with plots')
    .action(bench)
    .addCommand(
      new Command('compare')
        .description('Show the ratios between two result files of bench --json')
        .argument('<a>')
        .argument('<b>')
        .action(async (a: string, b: string) => {
          const [first, second] = await Promise.all([readResult(a), readResult(b)]);
          process.stdout.write(`${formatComparison(first, second, [a, b])}\n`);
        }),
    );
}

async function bench(options: BenchOptions): Promise<void> {
  const loads = readLoads(options);
  const slo = options.slo === undefined ? undefined : parseSlo(options.slo);
  if (options.baseUrl === undefined) throw new UserError('name the server with --base-url');
  const target = makeTarget(options.baseUrl, options.apiKey, options.header);
  const workloadSettings = await readWorkload(options);
  const model = options.model ?? (await discoverModel(target));
  const agent = makeAgent(target);
  const stop = new AbortController();
  const onInterrupt = (): void => stop.abort();
  process.once('SIGINT', onInterrupt);
  const shared = {
    target,
    agent,
    workload: new Workload({ ...workloadSettings, model }),
    seed: options.seed,
    timeout: parseDuration(options.timeout),
    signal: stop.signal,
  };
  try {
    const results: LoadResult[] = [];
    if (options.warmup > 0) await warmUp(loads, options.warmup, shared);
    for (const load of loads) {
      if (stop.signal.aborted) break;
      const limit = limitOf(load, options);
      const progress = startProgress(loadLabel(load), limit);
      const run = await runLoad(load, { ...shared, limit, onRecord: progress.onRecord });
      progress.stop();
      const result = loadResult(run, slo);
      results.push(result);
      process.stdout.write(`${formatLoad(result)}\n\n`);
    }
    if (results.length > 1) process.stdout.write(`${formatOverview(results)}\n`);
    await writeFiles(options, model, results);
    if (results.every(({ summary }) => summary.completed === 0)) process.exitCode = 1;
  } finally {
    process.removeListener('SIGINT', onInterrupt);
    agent.destroy();
  }
}

function readLoads(options: BenchOptions): Load[] {
  const arrival: ArrivalProcess =
    options.arrival === 'poisson' ? { kind: 'poisson' } : { kind: 'bursty', burstiness: options.burstiness };
  const closed = options.concurrency === undefined ? [] : parseConcurrencies(options.concurrency);
  const open = options.requestRate === undefined ? [] : parseRates(options.requestRate, arrival);
  if (options.duration !== undefined && open.some((load) => load.rate === Number.POSITIVE_INFINITY)) {
    throw new UserError('--request-rate inf needs --num-requests, not --duration');
  }
  const loads = [...closed, ...open];
  return loads.length > 0 ? loads : parseConcurrencies('1,4,16');
}

function limitOf(load: Load, options: BenchOptions): RunOptions['limit'] {
  if (options.duration !== undefined) return { duration: parseDuration(options.duration) };
  return { requests: options.numRequests ?? Math.max(16, 4 * (load.kind === 'closed' ? load.concurrency : 0)) };
}

async function readWorkload(options: BenchOptions) {
  const range = /^(\d+)-(\d+)$/.exec(options.tokenIds);
  if (range === null || Number(range[1]) > Number(range[2])) {
    throw new UserError(`"${options.tokenIds}" is not a range of token ids; write for example 1000-20000`);
  }
  return {
    endpoint: options.endpoint,
    seed: options.seed,
    promptTokens: parseLengths(options.promptTokens),
    outputTokens: parseLengths(options.outputTokens),
    sharedPrefixTokens: options.sharedPrefixTokens,
    promptAs: options.promptAs,
    tokenIds: { low: Number(range[1]), high: Number(range[2]) },
    ignoreEos: options.ignoreEos,
    continuousUsage: options.continuousUsage,
    extraBody: parseExtraBody(options.extraBody),
    ...(options.prompts === undefined ? {} : { prompts: await readPromptFile(options.prompts) }),
  };
}

function parseExtraBody(text: string | undefined): Record<string, unknown> {
  if (text === undefined) return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  } catch {
    // Told below, with the rest of what is no object.
  }
  throw new UserError('--extra-body is not a JSON object; write for example \'{"top_p": 0.9}\'');
}

/** Requests that are not measured, so that none that is pays for connections or for the server's first step. */
async function warmUp(loads: readonly Load[], requests: number, shared: Omit<RunOptions, 'limit'>): Promise<void> {
  const concurrency = Math.min(
    requests,
    Math.max(1, ...loads.map((load) => (load.kind === 'closed' ? load.concurrency : 1))),
  );
  const run = await runLoad({ kind: 'closed', concurrency }, { ...shared, limit: { requests } }, 'warm-up');
  const failure = run.records.find((record) => record.failure !== undefined)?.failure;
  if (failure !== undefined && run.records.every((record) => record.failure !== undefined)) {
    throw new UserError(`every warm-up request failed (${failure.kind}): ${failure.message}`);
  }
}

async function writeFiles(options: BenchOptions, model: string, loads: readonly LoadResult[]): Promise<void> {
  const { apiKey: _key, header: _headers, json, report, ...settings } = options;
  const result = benchResult(model, settings, loads);
  if (json !== undefined) await writeResult(json, result);
  if (report !== undefined) {
    const { renderReport } = await import('../loadgen/report/page.js');
    await writeFile(report, renderReport(result));
  }
}
