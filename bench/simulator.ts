/**
 * Whether the simulator tells the truth: a Poisson load on the real engine, and the same load simulated at step times
 * fitted to measurements, of other loads before and after it and of the load itself: `node bench/run.mjs simulator`;
 * `--write` puts the result into docs/scheduling.md. Ends with code 1 where throughput differs by more than 10 %, or
 * TTFT's p50 or p95 by more than 20 %, at the load's own step times.
 */
import { CalibrationLoad } from '../src/cli/calibration-load.js';
import type { EngineStats } from '../src/engine/protocol.js';
import { statistics } from '../src/loadgen/stats.js';
import { calibrate } from '../src/simulator/calibration.js';
import { simulate } from '../src/simulator/simulate.js';
import type { StepTimes } from '../src/simulator/step-time.js';
import { Workload, type WorkloadOptions } from '../src/simulator/workload.js';
import { markdownTable, writeBlock } from './support/document.js';
import { runRequest, startBenchEngine } from './support/engine-run.js';
import { describeMachine } from './support/machine.js';
import { benchConfig } from './support/model.js';
import { readNumbers, readOptions } from './support/options.js';
import { formatNumber, formatTable } from './support/statistics.js';

const options = readOptions({
  // In percent of what the engine serves when it is never idle, by the first calibration.
  loads: { type: 'string', default: '50,90' },
  requests: { type: 'string', default: '120' },
  'max-num-seqs': { type: 'string', default: '32' },
  write: { type: 'boolean', default: false },
});
const loads = readNumbers(options.loads);
const [requests = 0] = readNumbers(options.requests);
const [maxNumSeqs = 0] = readNumbers(options['max-num-seqs']);

const config = benchConfig({ maxNumSeqs, kvCacheMemory: 2 ** 28 });
const shape = {
  requests,
  seed: 3,
  promptTokens: { kind: 'lognormal', median: 100, sigma: 0.7 },
  outputTokens: { kind: 'lognormal', median: 40, sigma: 0.6 },
  sharedPrefixTokens: 64,
  prefixGroups: 4,
  users: 1,
  maxModelLen: 2048,
} as const satisfies Partial<WorkloadOptions>;

interface Figures {
  readonly throughput: number;
  readonly p50: number;
  readonly p95: number;
}

const machine = describeMachine();
const steps: EngineStats[] = [];
const engine = startBenchEngine(config, { onStep: (stats) => steps.push(stats) });
const { numBlocks, blockSize, vocabSize, mixedSteps } = await engine.ready();
const calibration = new CalibrationLoad(engine, maxNumSeqs);

async function calibrated(): Promise<EngineStats[]> {
  steps.length = 0;
  await calibration.run();
  return [...steps];
}

/** Every request at its time, as the workload has it. */
async function measured(workload: WorkloadOptions): Promise<Figures> {
  steps.length = 0;
  const source = new Workload(workload);
  const ttfts: number[] = [];
  let tokens = 0;
  const running: Promise<void>[] = [];
  const start = performance.now();
  for (let next = source.next; next !== undefined; next = source.next) {
    const { id: _id, arrival: _arrival, prompt, ...rest } = source.take();
    const request = { ...rest, prompt: prompt.map((token) => token % vocabSize) };
    const wait = start + next * 1000 - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    running.push(
      runRequest(engine, request).then((run) => {
        ttfts.push(run.ttft);
        tokens += run.tokens.length;
      }),
    );
  }
  await Promise.all(running);
  return figures(tokens / ((performance.now() - start) / 1000), ttfts);
}

function figures(throughput: number, ttfts: Iterable<number>): Figures {
  const { p50, p95 } = statistics(ttfts)!;
  return { throughput, p50, p95 };
}

function simulated(workload: WorkloadOptions, stepTimes: StepTimes): Figures {
  const limits = { maxNumSeqs, maxNumBatchedTokens: config.maxNumBatchedTokens, blockSize };
  const summary = simulate({ ...limits, workload, stepTimes, numBlocks, enablePrefixCaching: true }).summary();
  return { throughput: summary.outputTokensPerSecond, p50: summary.ttft!.p50, p95: summary.ttft!.p95 };
}

const rows: string[][] = [['load', '', 'output tokens/s', 'TTFT p50', 'TTFT p95']];
const row = (load: string, what: string, { throughput, p50, p95 }: Figures) =>
  rows.push([load, what, formatNumber(throughput), `${formatNumber(p50)} ms`, `${formatNumber(p95)} ms`]);
let wrong = 0;
try {
  await calibration.warmUp();
  let before = await calibrated();
  const { times } = calibrate(before, { description: 'first', mixedSteps });
  const full = { ...shape, load: { kind: 'closed', concurrency: 2 * maxNumSeqs } } as const;
  const limits = { maxNumSeqs, maxNumBatchedTokens: config.maxNumBatchedTokens, blockSize };
  const most = simulate({
    ...limits,
    workload: full,
    stepTimes: times,
    numBlocks,
    enablePrefixCaching: true,
  }).summary();
  for (const percent of loads) {
    const rate = (most.requestsPerSecond * percent) / 100;
    const workload: WorkloadOptions = { ...shape, load: { kind: 'open', rate, arrival: { kind: 'poisson' } } };
    const real = await measured(workload);
    const own = [...steps];
    const after = await calibrated();
    const around = simulated(workload, calibrate([...before, ...after], { description: 'around', mixedSteps }).times);
    const itself = simulated(workload, calibrate(own, { description: 'itself', mixedSteps }).times);
    before = after;
    const label = `${formatNumber(rate)} requests/s`;
    row(label, 'measured', real);
    row('', 'simulated, step times of other loads', around);
    row('', 'simulated, its own step times', itself);
    const off = (key: keyof Figures) => Math.abs(itself[key] / real[key] - 1);
    if (off('throughput') > 0.1 || off('p50') > 0.2 || off('p95') > 0.2) wrong++;
    console.log(formatTable(rows));
  }
} finally {
  await engine.close();
}
console.log(machine);
if (options.write) {
  const what = `${requests} requests with a long tail of lengths, of which 64 tokens are one of 4 common beginnings; ${maxNumSeqs} sequences at once.`;
  writeBlock('scheduling.md', 'simulator', `${machine}. ${what}\n\n${markdownTable(rows)}`);
}
if (wrong > 0) process.exitCode = 1;
