/** `sluice bench`: offers each load in turn, prints its figures as they come, and writes the files asked for. */
import { writeFile } from 'node:fs/promises';
import { UserError } from '../errors.js';
import { formatComparison } from '../loadgen/compare.js';
import { type Load, loadLabel } from '../loadgen/load.js';
import { startProgress } from '../loadgen/progress.js';
import { benchResult, type LoadResult, loadResult, readResult, writeResult } from '../loadgen/result.js';
import { type RunOptions, runLoad } from '../loadgen/run.js';
import { parseSlo } from '../loadgen/slo.js';
import { formatLoad, formatOverview } from '../loadgen/table.js';
import { discoverModel, makeAgent, makeTarget } from '../loadgen/target.js';
import { parseDuration } from '../loadgen/units.js';
import { Workload } from '../loadgen/workload.js';
import { type BenchOptions, readLimit, readLoads, readWorkload } from './bench-settings.js';
import { type OwnServer, startOwnServer } from './own-server.js';

/**
 * Resolves with the exit code: 1 when no request at all was completed.
 * @param serveOptions for the server to start where none is named
 */
export async function bench(options: BenchOptions, serveOptions: readonly string[]): Promise<number> {
  const loads = readLoads(options);
  const slo = options.slo === undefined ? undefined : parseSlo(options.slo);
  const timeout = parseDuration(options.timeout);
  const workload = await readWorkload(options);
  if (options.baseUrl !== undefined && serveOptions.length > 0) {
    throw new UserError(`"${serveOptions.join(' ')}" is for a server to start, but --base-url names one`);
  }
  const stop = new AbortController();
  const interrupt = (): void => stop.abort();
  process.once('SIGINT', interrupt);
  let server: OwnServer | undefined;
  try {
    if (options.baseUrl === undefined) server = await startOwnServer(serveOptions);
    const target = makeTarget(options.baseUrl ?? server!.url, options.apiKey, options.header);
    const model = options.model ?? (await discoverModel(target));
    const agent = makeAgent(target);
    const { seed } = options;
    const shared = {
      target,
      agent,
      workload: new Workload({ ...workload, model }),
      seed,
      timeout,
      signal: stop.signal,
    };
    await warmUp(loads, options.warmup, shared);
    const results: LoadResult[] = [];
    for (const load of loads) {
      if (stop.signal.aborted) break;
      const result = loadResult(await measure(load, { ...shared, limit: readLimit(load, options) }), slo);
      results.push(result);
      process.stdout.write(`${formatLoad(result)}\n\n`);
    }
    agent.destroy();
    if (results.length > 1) process.stdout.write(`${formatOverview(results)}\n`);
    await writeFiles(options, model, results);
    return results.some(({ summary }) => summary.completed > 0) ? 0 : 1;
  } finally {
    process.removeListener('SIGINT', interrupt);
    await server?.stop();
  }
}

/** `sluice bench compare`: prints the ratios between two result files. */
export async function compare(a: string, b: string): Promise<number> {
  const [first, second] = await Promise.all([readResult(a), readResult(b)]);
  process.stdout.write(`${formatComparison(first, second, [a, b])}\n`);
  return 0;
}

async function measure(load: Load, options: RunOptions) {
  const progress = startProgress(loadLabel(load), options.limit);
  try {
    return await runLoad(load, { ...options, onRecord: progress.onRecord });
  } finally {
    progress.stop();
  }
}

/** Requests that are not measured, so that none that is pays for connections or for the server's first step. */
async function warmUp(loads: readonly Load[], requests: number, shared: Omit<RunOptions, 'limit'>): Promise<void> {
  if (requests === 0) return;
  const atOnce = Math.max(...loads.map((load) => (load.kind === 'closed' ? load.concurrency : 1)));
  const load = { kind: 'closed', concurrency: Math.min(requests, atOnce) } as const;
  const { records } = await runLoad(load, { ...shared, limit: { requests } }, 'warm-up');
  const failure = records.find((record) => record.failure !== undefined)?.failure;
  if (failure !== undefined && records.every((record) => record.outcome === 'failed')) {
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
