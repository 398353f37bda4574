/** Runners of the tiny models for the tests of a block. */
import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import type { EngineConfig, Precision } from '../../src/engine/protocol.js';
import { loadModel } from '../../src/model/load.js';
import type { ModelRunner } from '../../src/model/runner.js';
import { TINY_MODELS } from './model-directory.js';
import { temporaryDirectory } from './temporary.js';

export const tinyModels = readdirSync(TINY_MODELS);

/** Tokens of a sequence, other than another's and never those that a tokenizer keeps for itself. */
export const tokensOf = (sequence: number, length: number): number[] =>
  Array.from({ length }, (_, i) => 20 + ((i * 37 + sequence * 101) % 400));

/** A runner on the CPU with blocks of 16 tokens, whose prepared model lies in `cache`. */
export async function loadTiny(
  cache: string,
  config: Pick<EngineConfig, 'model' | 'precision' | 'kvCacheMemory'> & Partial<EngineConfig>,
): Promise<ModelRunner> {
  process.env['SLUICE_CACHE_DIR'] = cache;
  const defaults = {
    device: 'cpu',
    threads: 1,
    maxNumSeqs: 8,
    maxNumBatchedTokens: 512,
    maxModelLen: undefined,
  } as const;
  const { runner } = await loadModel({ ...defaults, blockSize: 16, ...config }, () => {});
  return runner;
}

/** Loads a tiny model, or that of a path, on the CPU for the tests of the calling block; gives its runner. */
export function tinyRunner(
  name: string,
  kvCacheMemory: number,
  precision: Precision = 'fp32',
  config: Partial<EngineConfig> = {},
): () => ModelRunner {
  const cache = temporaryDirectory();
  let runner: ModelRunner;
  beforeAll(async () => {
    runner = await loadTiny(cache, { model: resolve(TINY_MODELS, name), precision, kvCacheMemory, ...config });
  });
  afterAll(() => runner.dispose());
  return () => runner;
}
