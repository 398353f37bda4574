/** Loads a model for a benchmark that drives its runner in this process. */
import type { EngineConfig, Precision } from '../../src/engine/protocol.js';
import { type LoadedModel, loadModel } from '../../src/model/load.js';
import { bundledModel } from './paths.js';

const defaults: EngineConfig = {
  model: bundledModel,
  device: 'cpu',
  precision: 'auto',
  threads: 0,
  maxNumSeqs: 64,
  maxNumBatchedTokens: 512,
  maxModelLen: undefined,
  kvCacheMemory: 1024 ** 3,
  blockSize: 32,
};

/** The bundled model on the CPU, with what is given changed. */
export function benchConfig(changes: Partial<EngineConfig> = {}): EngineConfig {
  return { ...defaults, ...changes };
}

export function loadForBench(changes: Partial<EngineConfig> = {}): Promise<LoadedModel> {
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
