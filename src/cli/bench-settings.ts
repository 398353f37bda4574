/** The options of `sluice bench`, and the loads and requests that they ask for. */
import { UserError } from '../errors.js';
import { parseLengths } from '../loadgen/lengths.js';
import { type ArrivalProcess, type Load, parseConcurrencies, parseRates } from '../loadgen/load.js';
import { readPromptFile } from '../loadgen/prompt-file.js';
import type { RunOptions } from '../loadgen/run.js';
import { parseDuration } from '../loadgen/units.js';
import type { WorkloadOptions } from '../loadgen/workload.js';

export interface BenchOptions {
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
  readonly timeout: string;
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
  readonly slo?: string;
  readonly json?: string;
  readonly report?: string;
}

/** @throws UserError when an option cannot be read, or two do not go together */
export function readLoads(options: BenchOptions): Load[] {
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

/** When a load ends. */
export function readLimit(load: Load, options: BenchOptions): RunOptions['limit'] {
  if (options.duration !== undefined) return { duration: parseDuration(options.duration) };
  return { requests: options.numRequests ?? Math.max(16, 4 * (load.kind === 'closed' ? load.concurrency : 0)) };
}

/** @throws UserError when an option cannot be read, or the file of prompts */
export async function readWorkload(options: BenchOptions): Promise<Omit<WorkloadOptions, 'model'>> {
  return {
    endpoint: options.endpoint,
    seed: options.seed,
    promptTokens: parseLengths(options.promptTokens),
    outputTokens: parseLengths(options.outputTokens),
    sharedPrefixTokens: options.sharedPrefixTokens,
    promptAs: options.promptAs,
    tokenIds: parseTokenIds(options.tokenIds),
    ignoreEos: options.ignoreEos,
    continuousUsage: options.continuousUsage,
    extraBody: parseExtraBody(options.extraBody),
    ...(options.prompts === undefined ? {} : { prompts: await readPromptFile(options.prompts) }),
  };
}

function parseTokenIds(text: string): WorkloadOptions['tokenIds'] {
  const match = /^(\d+)-(\d+)$/.exec(text);
  if (match === null || Number(match[1]) > Number(match[2])) {
    throw new UserError(`"${text}" is not a range of token ids; write for example 1000-20000`);
  }
  return { low: Number(match[1]), high: Number(match[2]) };
}

function parseExtraBody(text = '{}'): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  } catch {
    // Told below, with the rest of what is no object.
  }
  throw new UserError('--extra-body is not a JSON object; write for example \'{"top_p": 0.9}\'');
}
