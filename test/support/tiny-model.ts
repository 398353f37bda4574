/** Runners of the tiny models for the tests of a block. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll } from 'vitest';
import { loadModel } from '../../src/model/load.js';
import type { ModelRunner } from '../../src/model/runner.js';
import { temporaryDirectory } from './temporary.js';

const MODELS = fileURLToPath(new URL('../fixtures/models', import.meta.url));

export const tinyModels = readdirSync(MODELS);

/** Loads a tiny model in fp32 on the CPU, with blocks of 16 tokens, for the tests of the calling block; gives its runner. */
export function tinyRunner(name: string, kvCacheMemory: number): () => ModelRunner {
  const cache = temporaryDirectory();
  let runner: ModelRunner;
  beforeAll(async () => {
    process.env['SLUICE_CACHE_DIR'] = cache;
    ({ runner } = await loadModel(
      {
        model: join(MODELS, name),
        device: 'cpu',
        precision: 'fp32',
        threads: 1,
        maxNumSeqs: 8,
        maxNumBatchedTokens: 512,
        maxModelLen: undefined,
        kvCacheMemory,
        blockSize: 16,
      },
      () => {},
    ));
  });
  afterAll(() => runner.dispose());
  return () => runner;
}
