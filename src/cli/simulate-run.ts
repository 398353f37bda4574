/** `sluice simulate`: simulates each load in turn and prints what came of it. */
import { readFile, writeFile } from 'node:fs/promises';
import { UserError } from '../errors.js';
import { parseLengths } from '../loadgen/lengths.js';
import { type Load, loadLabel, parseConcurrencies, parseRates } from '../loadgen/load.js';
import { bundledStepTimes } from '../simulator/bundled-step-times.js';
import { formatSimulations } from '../simulator/report.js';
import { simulate } from '../simulator/simulate.js';
import { parseStepTimes, type StepTimes } from '../simulator/step-time.js';
import type { Summary } from '../simulator/tally.js';
import { schedulingConfig } from './scheduling-options.js';
import type { SimulateOptions } from './simulate.js';

/** Resolves with the exit code. */
export async function runSimulations(options: SimulateOptions): Promise<number> {
  const loads = readLoads(options);
  const stepTimes = await readStepTimes(options.stepTimes);
  const results: { readonly label: string; readonly summary: Summary }[] = [];
  const start = performance.now();
  for (const load of loads) results.push({ label: loadLabel(load), summary: runOne(load, stepTimes, options) });
  const seconds = (performance.now() - start) / 1000;
  const requests = results.reduce((sum, { summary }) => sum + summary.requests, 0);
  process.stdout.write(`${formatSimulations(results)}\n`);
  process.stdout.write(
    `\nstep times: ${stepTimes.description}\n${requests} requests simulated in ${seconds.toFixed(1)} s\n`,
  );
  if (options.json !== undefined) {
    const { stepTimes: _file, json: _json, ...settings } = options;
    await writeFile(options.json, `${JSON.stringify({ settings, stepTimes, results }, undefined, 2)}\n`);
  }
  return 0;
}

function runOne(load: Load, stepTimes: StepTimes, options: SimulateOptions): Summary {
  const { enablePrefixCaching, queueTimeout, ...scheduling } = schedulingConfig(options);
  const workload = {
    load,
    requests: options.numRequests,
    seed: options.seed,
    promptTokens: parseLengths(options.promptTokens),
    outputTokens: parseLengths(options.outputTokens),
    sharedPrefixTokens: options.sharedPrefixTokens,
    prefixGroups: options.prefixGroups,
    users: options.users,
    maxModelLen: options.maxModelLen,
    queueTimeout,
  };
  const show = process.stderr.isTTY;
  const onProgress = (ended: number): void => {
    process.stderr.write(`\r${loadLabel(load)}: ${ended} of ${options.numRequests}\x1b[K`);
  };
  const tally = simulate({
    ...scheduling,
    workload,
    stepTimes,
    enablePrefixCaching: enablePrefixCaching ?? true,
    maxNumSeqs: options.maxNumSeqs,
    maxNumBatchedTokens: options.maxNumBatchedTokens,
    numBlocks: options.numBlocks,
    blockSize: options.blockSize,
    ...(show && { onProgress }),
  });
  if (show) process.stderr.write('\r\x1b[K');
  return tally.summary();
}

function readLoads(options: SimulateOptions): Load[] {
  const arrival =
    options.arrival === 'poisson'
      ? ({ kind: 'poisson' } as const)
      : ({ kind: 'bursty', burstiness: options.burstiness } as const);
  const closed = options.concurrency === undefined ? [] : parseConcurrencies(options.concurrency);
  const open = options.requestRate === undefined ? [] : parseRates(options.requestRate, arrival);
  const loads = [...closed, ...open];
  return loads.length > 0 ? loads : parseRates('1,2,4,8', arrival);
}

async function readStepTimes(file: string | undefined): Promise<StepTimes> {
  if (file === undefined) return bundledStepTimes;
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw new UserError(`cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
  return parseStepTimes(text, file);
}
