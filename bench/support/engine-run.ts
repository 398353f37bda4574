/** Runs single requests on an engine, whose thread is a compiled one, and takes their times. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { NewRequest } from '../../src/engine/client.js';
import type { EngineConfig } from '../../src/engine/protocol.js';
import { type StartOptions, startEngine, type WorkerEngineClient } from '../../src/engine/worker-client.js';
import { root } from './paths.js';

export interface RequestRun {
  readonly tokens: readonly number[];
  /** Prompt tokens from the prefix cache. */
  readonly cachedTokens: number;
  /** Milliseconds from sending to the first token, and to the end. */
  readonly ttft: number;
  readonly total: number;
}

export function startBenchEngine(config: EngineConfig, options: StartOptions = {}): WorkerEngineClient {
  return startEngine(config, { ...options, worker: pathToFileURL(join(root, 'dist', 'engine', 'worker.js')) });
}

export async function runRequest(
  engine: WorkerEngineClient,
  request: NewRequest,
  signal?: AbortSignal,
): Promise<RequestRun> {
  const start = performance.now();
  const tokens: number[] = [];
  let ttft = Number.NaN;
  let cachedTokens = 0;
  for await (const outputs of engine.generate(request, signal)) {
    for (const output of outputs) {
      if (output.choice === 0) cachedTokens += output.cachedTokens ?? 0;
      if (output.tokens.length > 0 && Number.isNaN(ttft)) ttft = performance.now() - start;
      tokens.push(...output.tokens);
    }
  }
  return { tokens, cachedTokens, ttft, total: performance.now() - start };
}
