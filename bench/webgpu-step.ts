/**
 * Where a step on the WebGPU device spends its time, and how many kernels it launches:
 * `node bench/run.mjs webgpu-step [--model PATH] [--precision P] [--steps N]`. Needs a Vulkan driver, see docs/webgpu.md.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { EngineLoop } from '../src/engine/loop.js';
import type { EnginePort } from '../src/engine/port.js';
import {
  type CommandBatch,
  type EngineStats,
  type GenerationRequest,
  GREEDY,
  PLAIN_REQUEST,
  type WorkerMessage,
} from '../src/engine/protocol.js';
import type { Architecture } from '../src/model/architecture.js';
import type { Adapter, Probe } from '../src/model/backends/webgpu/adapter.js';
import { DeviceCache } from '../src/model/backends/webgpu/cache.js';
import { buildWebGpuGraph, type WebGpuPrecision } from '../src/model/backends/webgpu/graph.js';
import { OUTPUTS } from '../src/model/backends/webgpu/names.js';
import { WebGpuRunner } from '../src/model/backends/webgpu/runner.js';
import { webgpuSessionOptions } from '../src/model/backends/webgpu/session.js';
import { buildStepInputs } from '../src/model/backends/webgpu/step-inputs.js';
import { distinctWindows, windowFeeds } from '../src/model/backends/webgpu/windows.js';
import { openCheckpoint } from '../src/model/formats/open.js';
import { GraphBuilder } from '../src/model/graph/builder.js';
import { prepareModel } from '../src/model/prepare.js';
import type { StepBatch } from '../src/model/runner.js';

const { values: options } = parseArgs({
  options: {
    model: { type: 'string', default: 'models/SmolLM2-135M-Instruct.Q4_1.gguf' },
    precision: { type: 'string', default: 'int8' },
    steps: { type: 'string', default: '20' },
    /** Tokens before each decode. */
    context: { type: 'string', default: '128' },
    /** In a child process: runs one step of these sizes with every launch in the log. */
    launches: { type: 'string' },
  },
});
const BLOCK_SIZE = 32;
const CONTEXT = Number(options.context);
const ENTRY_RULES = { maxRows: Number.POSITIVE_INFINITY, endAtLogits: false };

interface Prepared {
  readonly modelFile: string;
  readonly architecture: Architecture;
  readonly windows: readonly number[];
  readonly adapter: Adapter;
}

async function prepare(): Promise<Prepared> {
  // As in `adapter.ts`, but from the root of the repository: this module is bundled to another place.
  const { stdout } = spawnSync(process.execPath, ['dist/model/backends/webgpu/probe.js'], { encoding: 'utf8' });
  const probe = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Probe;
  if (!probe.found) throw new Error(`no WebGPU device: ${probe.reason}`);
  const checkpoint = await openCheckpoint(options.model);
  const precision = options.precision as WebGpuPrecision;
  const windows = probe.adapter.software ? 'repacked' : 'provider';
  const modelFile = await prepareModel(['webgpu', precision, windows, checkpoint.fingerprint], (g, store) =>
    buildWebGpuGraph(g, store, checkpoint, { precision, windows, logitRows: true }),
  );
  await checkpoint.close();
  const { architecture } = checkpoint;
  return {
    modelFile,
    architecture,
    windows: windows === 'repacked' ? distinctWindows(architecture) : [],
    adapter: probe.adapter,
  };
}

function cacheShape(architecture: Architecture, numBlocks: number) {
  const { layers, numKvHeads, headSize } = architecture;
  return { layers: layers.length, kvHeads: numKvHeads, headSize, blockSize: BLOCK_SIZE, numBlocks };
}

/** `sequences` rows of one token each after a past, or one chunk of `rows` without. */
function batchOf(sequences: number, rows: number): StepBatch {
  const maxBlocks = Math.ceil((CONTEXT + rows) / BLOCK_SIZE);
  const perSequence = rows / sequences;
  return {
    tokens: Int32Array.from({ length: rows }, (_, i) => 10 + i),
    cumulativeLengths: Int32Array.from({ length: sequences + 1 }, (_, i) => i * perSequence),
    pastLengths: new Int32Array(sequences).fill(perSequence === 1 ? CONTEXT - 1 : 0),
    blockTables: Int32Array.from({ length: sequences * maxBlocks }, (_, i) => i),
    maxBlocks,
    logitRows: Int32Array.from({ length: sequences }, (_, i) => (i + 1) * perSequence - 1),
  };
}

/** Launches of one step, read from the provider's log in a process of its own. */
function countLaunches(sequences: number, rows: number): Map<string, number> {
  const args = [fileURLToPath(import.meta.url), ...process.argv.slice(2), '--launches', `${sequences},${rows}`];
  const { stderr, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 1 << 30 });
  const step = `${stdout}${stderr}`.split('the step begins')[1] ?? '';
  const counts = new Map<string, number>();
  for (const [, program] of step.matchAll(/Starting program "(\w+)/g)) {
    counts.set(program!, (counts.get(program!) ?? 0) + 1);
  }
  return counts;
}

async function logLaunches([sequences, rows]: number[]): Promise<void> {
  const { modelFile, architecture, windows } = await prepare();
  const session = await InferenceSession.create(modelFile, { ...webgpuSessionOptions(), logSeverityLevel: 1 });
  const batch = batchOf(sequences!, rows!);
  const cache = await DeviceCache.create(cacheShape(architecture, sequences! * batch.maxBlocks));
  const { feeds } = buildStepInputs(batch, ENTRY_RULES, true);
  if (windows.length > 0) Object.assign(feeds, windowFeeds(batch, BLOCK_SIZE, windows));
  process.stderr.write('the step begins\n');
  await session.run({ ...feeds, ...cache.past }, { ...cache.present, [OUTPUTS.logits]: null });
  process.exit(0);
}

/** Milliseconds to bring f32 [rows, width] from the device. */
async function downloadTime(rows: number, width: number, steps: number): Promise<number> {
  const make = new GraphBuilder('make');
  make.nodes('Expand', [make.constant('float32', [1], Float32Array.of(1)), make.input('shape', 'int64', [2])], ['x']);
  make.output('x', 'float32', ['rows', 'width']);
  const source = await InferenceSession.create(make.toBytes(), {
    ...webgpuSessionOptions(),
    preferredOutputLocation: 'gpu-buffer',
  });
  const { x } = await source.run({
    shape: new Tensor('int64', BigInt64Array.of(BigInt(rows), BigInt(width)), [2]),
  });
  const fetch = new GraphBuilder('fetch');
  fetch.nodes('Neg', [fetch.input('x', 'float32', ['rows', 'width'])], ['y']);
  fetch.output('y', 'float32', ['rows', 'width']);
  const session = await InferenceSession.create(fetch.toBytes(), webgpuSessionOptions());
  const times: number[] = [];
  for (let i = 0; i < steps + 3; i++) {
    const start = performance.now();
    await session.run({ x: x! });
    times.push(performance.now() - start);
  }
  (x as Tensor).dispose();
  await session.release();
  await source.release();
  return median(times.slice(3));
}

/** Gives the loop its requests at once and ends it after the last one's end. */
class BenchPort implements EnginePort {
  readonly stats: EngineStats[] = [];
  #inbox: CommandBatch | undefined;
  #open: number;

  constructor(requests: readonly GenerationRequest[]) {
    this.#inbox = { commands: requests.map((request) => ({ kind: 'generate', request })) };
    this.#open = requests.length;
  }

  receive(): CommandBatch | undefined {
    const inbox = this.#inbox ?? (this.#open === 0 ? ({ commands: [{ kind: 'shutdown' }] } as const) : undefined);
    this.#inbox = undefined;
    if (this.#open === 0) this.#open = -1;
    return inbox;
  }

  async wait(): Promise<void> {}

  send(message: WorkerMessage): void {
    if (message.kind !== 'step') return;
    this.stats.push(message.stats);
    this.#open -= message.outputs.filter(({ finish }) => finish !== undefined).length;
  }
}

function requestOf(
  id: number,
  promptLength: number,
  maxTokens: number,
  temperature: number,
  vocabSize: number,
): GenerationRequest {
  return {
    ...PLAIN_REQUEST,
    id,
    prompt: Int32Array.from({ length: promptLength }, (_, i) => 3 + ((i * 7919 + id * 104729) % (vocabSize - 3))),
    sampling: { ...GREEDY, temperature },
    maxTokens,
    cacheSalt: String(id),
    arrival: 0,
  };
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

interface Kind {
  readonly label: string;
  readonly sequences: number;
  /** Rows of a step. */
  readonly rows: number;
  /** 0 is greedy: then the likeliest tokens leave the device, else whole rows of logits. */
  readonly temperature: number;
}
const KINDS: readonly Kind[] = [
  { label: `1 decode after ${CONTEXT} tokens, greedy`, sequences: 1, rows: 1, temperature: 0 },
  { label: '8 decodes, greedy', sequences: 8, rows: 8, temperature: 0 },
  { label: '8 decodes, sampled', sequences: 8, rows: 8, temperature: 0.8 },
  { label: '1 prefill of 64 tokens, greedy', sequences: 1, rows: 64, temperature: 0 },
];

async function measure(kind: Kind, prepared: Prepared, runner: WebGpuRunner, steps: number): Promise<string> {
  const { architecture, windows } = prepared;
  const { sequences, rows, temperature } = kind;
  const decode = rows === sequences;
  const requests = decode
    ? Array.from({ length: sequences }, (_, id) =>
        requestOf(id, CONTEXT, steps + 4, temperature, architecture.vocabSize),
      )
    : Array.from({ length: steps + 4 }, (_, id) => requestOf(id, rows, 1, temperature, architecture.vocabSize));
  const port = new BenchPort(requests);
  await new EngineLoop(runner, port, {
    maxNumSeqs: decode ? sequences : 1,
    maxNumBatchedTokens: 512,
    maxModelLen: architecture.maxPositions,
  }).run();
  const all = port.stats.filter(
    (s) => (decode ? s.decodeTokens : s.prefillTokens) === rows && s.sequences === sequences,
  );
  const seen = all.slice(-steps);
  const part = (pick: (stats: EngineStats) => number) => 1000 * median(seen.map(pick));

  const batch = batchOf(sequences, rows);
  const building: number[] = [];
  for (let i = 0; i < 200; i++) {
    const start = performance.now();
    const { feeds } = buildStepInputs(batch, ENTRY_RULES, true);
    if (windows.length > 0) Object.assign(feeds, windowFeeds(batch, BLOCK_SIZE, windows));
    building.push(performance.now() - start);
  }
  const upload = median(building);
  const download = await downloadTime(sequences, temperature === 0 ? 3 : architecture.vocabSize, 20);
  const launches = [...countLaunches(sequences, rows).values()].reduce((sum, count) => sum + count, 0);
  const run = part((s) => s.modelTime) - upload - download;
  const cells = [part((s) => s.scheduleTime), upload, run, download, part((s) => s.sampleTime)];
  return `| ${kind.label} | ${cells.map((ms) => ms.toFixed(2)).join(' | ')} | ${launches} |`;
}

async function main(): Promise<void> {
  if (options.launches !== undefined) return logLaunches(options.launches.split(',').map(Number));
  const prepared = await prepare();
  const { architecture, modelFile, windows, adapter } = prepared;
  const runner = await WebGpuRunner.create({
    modelFile,
    vocabSize: architecture.vocabSize,
    cache: cacheShape(architecture, 256),
    description: adapter.name,
    maxRowsPerEntry: Number.POSITIVE_INFINITY,
    repackedWindows: windows,
  });
  console.log(`${options.model}, ${options.precision}, on ${adapter.name}; milliseconds, median\n`);
  console.log('| step | schedule | upload | run | download | sample | launches |\n|---|---|---|---|---|---|---|');
  for (const kind of KINDS) console.log(await measure(kind, prepared, runner, Number(options.steps)));
  await runner.dispose();

  console.log('\n| kernels of a decode | launches |\n|---|---|');
  for (const [program, count] of [...countLaunches(1, 1)].sort((a, b) => b[1] - a[1])) {
    console.log(`| ${program} | ${count} |`);
  }
}

await main();
