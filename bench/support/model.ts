/** Loads a model for a benchmark that drives its runner in this process: the code that is built, which finds its threads. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { EngineConfig, Precision } from '../../src/engine/protocol.js';
import type { LoadedModel } from '../../src/model/load.js';
import { bundledModel, root } from './paths.js';

const defaults: EngineConfig = {
  model: bundledModel,
  device: 'cpu',
  precision: 'auto',
  threads: 0,
  maxNumSeqs: 64,
  maxNumBatchedTokens: 512,
  maxModelLen: undefined,
  kvCacheMemory: 1024 ** 3,
};

/** The bundled model on the CPU, with what is given changed. */
export function benchConfig(changes: Partial<EngineConfig> = {}): EngineConfig {
  return { ...defaults, ...changes };
}

export async function loadForBench(changes: Partial<EngineConfig> = {}): Promise<LoadedModel> {
  const built = pathToFileURL(join(root, 'dist', 'model', 'load.js')).href;
  const { loadModel }: typeof import('../../src/model/load.js') = await import(/* @vite-ignore */ built);
  return loadModel(benchConfig(changes), () => {});
}

/** Names of precisions, as in int8,fp32. */
export function readPrecisions(text: string): (Precision | 'auto')[] {
  const known = ['auto', 'fp32', 'fp16', 'int8', 'int4'] as const;
  return text.split(',').map((name) => {
    const precision = known.find((candidate) => candidate === name);
    if (precision === undefined) throw new Error(`precision "${name}" is not one of ${known.join(', ')}`);
    return precision;
  });
}
