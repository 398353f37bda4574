/**
 * Whether `sluice bench` measures what another load generator does: `node bench/run.mjs compare-aiperf`; further
 * options are those of the server. NVIDIA's aiperf is installed from PyPI into node_modules/.cache at the first run.
 * Both offer the same kind of load to one server at the same time, so that whatever slows the server down slows it down
 * for both; of this one's requests those count that lie within aiperf's measurement. Ends with code 1 when a figure
 * differs by more than 10 %. Best on a machine with nothing else to do: each has but 128 requests to agree on.
 */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { startOwnServer } from '../src/cli/own-server.js';
import { runLoad } from '../src/loadgen/run.js';
import { summarize } from '../src/loadgen/summary.js';
import { formatNumber, formatTable } from '../src/loadgen/table.js';
import { discoverModel, makeAgent, makeTarget } from '../src/loadgen/target.js';
import { Workload } from '../src/loadgen/workload.js';

const AIPERF = '0.13.0';
const VENV = resolve('node_modules/.cache/aiperf');
const CONCURRENCY = 2;
const REQUESTS = 64;
const ROUNDS = 2;
/** Lengths differ from request to request; with equal ones, the two would fall into step with each other and stay there. */
const PROMPT_TOKENS = { kind: 'uniform', low: 32, high: 96 } as const;
const OUTPUT_TOKENS = { kind: 'uniform', low: 8, high: 32 } as const;
const TOLERANCE = 0.1;
/** aiperf wants a tokenizer to start, though it takes the counts of the server's. */
const TOKENIZER = resolve('test/fixtures/models/tiny-llama');

/** Milliseconds and tokens a second. */
interface Figures {
  readonly 'TTFT mean': number;
  readonly 'TPOT mean': number;
  readonly 'end to end mean': number;
  readonly 'output tokens/s': number;
}

function install(): void {
  if (existsSync(join(VENV, 'bin/aiperf'))) return;
  for (const [command, ...args] of [
    ['python3', '-m', 'venv', VENV],
    [join(VENV, 'bin/pip'), 'install', '--quiet', `aiperf==${AIPERF}`],
  ] as const) {
    if (spawnSync(command, args, { stdio: 'inherit' }).status !== 0)
      throw new Error(`${command} ${args.join(' ')} failed`);
  }
}

const workloadOf = (model: string, seed: number): Workload =>
  new Workload({
    model,
    endpoint: 'completions',
    seed,
    promptTokens: PROMPT_TOKENS,
    outputTokens: OUTPUT_TOKENS,
    sharedPrefixTokens: 0,
    promptAs: 'words',
    tokenIds: { low: 0, high: 0 },
    ignoreEos: true,
    continuousUsage: true,
    extraBody: {},
  });

interface AiperfRun {
  readonly figures: Figures;
  /** Milliseconds since 1970: the first request's start and the last one's end. */
  readonly window: { readonly start: number; readonly end: number };
}

async function runAiperf(url: string, model: string, seed: number, folder: string): Promise<AiperfRun> {
  const workload = workloadOf(model, seed);
  const prompts = Array.from({ length: REQUESTS }, (_, index) => {
    const { prompt, max_tokens } = JSON.parse(workload.request('aiperf', index).body.toString());
    return JSON.stringify({ text: prompt, output_length: max_tokens });
  });
  await mkdir(folder);
  await writeFile(join(folder, 'prompts.jsonl'), `${prompts.join('\n')}\n`);
  const extra = JSON.stringify({ ignore_eos: true, temperature: 0 });
  await promisify(execFile)(
    join(VENV, 'bin/aiperf'),
    [
      ...['profile', '--model', model, '--url', url, '--endpoint-type', 'completions', '--streaming'],
      ...['--concurrency', String(CONCURRENCY), '--request-count', String(REQUESTS), '--warmup-request-count', '2'],
      ...['--tokenizer', TOKENIZER, '--use-server-token-count', '--extra-inputs', extra],
      ...['--input-file', join(folder, 'prompts.jsonl'), '--custom-dataset-type', 'single_turn'],
      ...['--artifact-dir', folder, '--ui', 'none', '--no-gpu-telemetry', '--no-server-metrics'],
    ],
    { maxBuffer: 1 << 26 },
  );
  const summary = JSON.parse(await readFile(join(folder, 'profile_export_aiperf.json'), 'utf8'));
  const lines = (await readFile(join(folder, 'profile_export.jsonl'), 'utf8')).trim().split('\n');
  const requests = lines
    .map((line) => JSON.parse(line).metadata)
    .filter((request) => request.benchmark_phase === 'profiling');
  return {
    figures: {
      'TTFT mean': summary.time_to_first_token.avg,
      // aiperf's inter-token latency is (request latency - TTFT) / (tokens - 1): what is called TPOT here.
      'TPOT mean': summary.inter_token_latency.avg,
      'end to end mean': summary.request_latency.avg,
      'output tokens/s': summary.output_token_throughput.avg,
    },
    window: {
      start: Math.min(...requests.map((request) => request.request_start_ns)) / 1e6,
      end: Math.max(...requests.map((request) => request.request_end_ns)) / 1e6,
    },
  };
}

async function compareOnce(url: string, model: string, seed: number, folder: string): Promise<[Figures, Figures]> {
  const target = makeTarget(url, undefined);
  const agent = makeAgent(target);
  const stop = new AbortController();
  const ours = runLoad(
    { kind: 'closed', concurrency: CONCURRENCY },
    {
      target,
      agent,
      workload: workloadOf(model, seed),
      seed,
      limit: { duration: 3_600_000 },
      timeout: 60_000,
      signal: stop.signal,
    },
  );
  const { figures, window } = await runAiperf(url, model, seed, folder).finally(() => stop.abort());
  const { records, own, startedAt } = await ours;
  agent.destroy();
  const within = records.filter(({ sent, end }) => startedAt + sent >= window.start && startedAt + end <= window.end);
  const { latencies, outputThroughput, failed } = summarize(within, own);
  if (failed > 0) throw new Error(`${failed} requests failed`);
  return [
    {
      'TTFT mean': latencies.ttft!.mean,
      'TPOT mean': latencies.tpot!.mean,
      'end to end mean': latencies.e2e!.mean,
      'output tokens/s': outputThroughput,
    },
    figures,
  ];
}

install();
const server = await startOwnServer(process.argv.slice(2), resolve('dist/cli/main.js'));
const folder = await mkdtemp(join(tmpdir(), 'compare-aiperf-'));
try {
  const model = await discoverModel(makeTarget(server.url, undefined));
  const rounds: [Figures, Figures][] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    rounds.push(await compareOnce(server.url, model, round, join(folder, String(round))));
  }
  const mean = (side: 0 | 1, key: keyof Figures): number =>
    rounds.reduce((sum, round) => sum + round[side][key], 0) / rounds.length;
  const rows = (Object.keys(rounds[0]![0]) as (keyof Figures)[]).map((key) => {
    const [ours, theirs] = [mean(0, key), mean(1, key)];
    return { key, ours, theirs, ratio: ours / theirs };
  });
  const text = rows.map(({ key, ours, theirs, ratio }) => [
    key,
    formatNumber(ours),
    formatNumber(theirs),
    ratio.toFixed(3),
  ]);
  console.log(formatTable([['', 'sluice bench', `aiperf ${AIPERF}`, 'ratio'], ...text]));
  if (rows.some(({ ratio }) => Math.abs(ratio - 1) > TOLERANCE)) {
    console.log(`a figure differs by more than ${TOLERANCE * 100} %`);
    process.exitCode = 1;
  }
} finally {
  await server.stop();
  await rm(folder, { recursive: true });
}
