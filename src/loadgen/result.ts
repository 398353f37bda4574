/** The result file: everything that a run measured, enough to make its report again or to compare it with another. */
import { readFile, writeFile } from 'node:fs/promises';
import { cpus, totalmem } from 'node:os';
import { z } from 'zod';
import { UserError } from '../errors.js';
import { type Load, loadLabel } from './load.js';
import type { RequestRecord } from './record.js';
import type { LoadRun } from './run.js';
import type { Slo } from './slo.js';
import { type LoadSummary, summarize } from './summary.js';

export interface BenchResult {
  readonly format: 'sluice-bench';
  readonly version: 1;
  readonly startedAt: string;
  readonly client: {
    readonly node: string;
    readonly cpu: string;
    readonly cores: number;
    readonly memoryBytes: number;
  };
  readonly model: string;
  /** What was asked for, as given on the command line, keys and headers left out. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly loads: readonly LoadResult[];
}

export interface LoadResult {
  readonly label: string;
  readonly load: Load;
  readonly startedAt: string;
  readonly summary: LoadSummary;
  readonly requests: readonly RequestRecord[];
}

export function loadResult(run: LoadRun, slo?: Slo): LoadResult {
  return {
    label: loadLabel(run.load),
    load: run.load,
    startedAt: new Date(run.startedAt).toISOString(),
    summary: summarize(run.records, run.own, slo),
    requests: run.records,
  };
}

export function benchResult(
  model: string,
  settings: Readonly<Record<string, unknown>>,
  loads: readonly LoadResult[],
): BenchResult {
  return {
    format: 'sluice-bench',
    version: 1,
    startedAt: loads[0]?.startedAt ?? new Date().toISOString(),
    client: {
      node: process.version,
      cpu: cpus()[0]?.model ?? 'unknown',
      cores: cpus().length,
      memoryBytes: totalmem(),
    },
    model,
    settings,
    loads,
  };
}

/** Times are kept to the microsecond. */
export async function writeResult(file: string, result: BenchResult): Promise<void> {
  const rounded = (_key: string, value: unknown): unknown =>
    typeof value === 'number' ? Math.round(value * 1000) / 1000 : value;
  await writeFile(file, `${JSON.stringify(result, rounded)}\n`);
}

const statistics = z.object({ mean: z.number(), p50: z.number(), p90: z.number(), p95: z.number(), p99: z.number() });

const comparable = z.object({
  format: z.literal('sluice-bench'),
  version: z.literal(1),
  startedAt: z.string(),
  model: z.string(),
  loads: z.array(
    z.object({
      label: z.string(),
      summary: z.object({
        completed: z.number(),
        failed: z.number(),
        requestThroughput: z.number(),
        outputThroughput: z.number(),
        totalThroughput: z.number(),
        latencies: z.record(z.enum(['ttft', 'tpot', 'itl', 'e2e']), statistics.optional()),
        goodput: z.object({ throughput: z.number() }).optional(),
      }),
    }),
  ),
});

/** The part of a result file that a comparison reads. */
export type ComparableResult = z.output<typeof comparable>;

/** @throws UserError when the file is missing or not a result of `sluice bench --json` */
export async function readResult(file: string): Promise<ComparableResult> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    throw new UserError(`${file}: cannot be read as JSON (${error instanceof Error ? error.message : String(error)})`);
  }
  const parsed = comparable.safeParse(value);
  if (!parsed.success) throw new UserError(`${file}: not a result file of "sluice bench --json"`);
  return parsed.data;
}
