/** From an engine configuration to a model that can run: opens the checkpoint, prepares it for a device, loads it. */
import type { EngineConfig, Precision } from '../engine/protocol.js';
import { loadCpuModel } from './backends/cpu/load.js';
import { openCheckpoint } from './formats/open.js';
import type { ModelRunner } from './runner.js';

export interface LoadedModel {
  readonly runner: ModelRunner;
  readonly precision: Precision;
  /** Longest sequence it serves: the least of what was asked for, the model's context and the pool's size. */
  readonly maxModelLen: number;
}

export type LoadProgress = (phase: string, fraction: number) => void;

export async function loadModel(config: EngineConfig, progress: LoadProgress): Promise<LoadedModel> {
  progress('open', 0);
  const checkpoint = await openCheckpoint(config.model);
  try {
    const { runner, precision } = await loadCpuModel(checkpoint, config, progress);
    const maxModelLen = Math.min(
      config.maxModelLen ?? Number.POSITIVE_INFINITY,
      checkpoint.architecture.maxPositions,
      runner.numBlocks * runner.blockSize,
    );
    return { runner, precision, maxModelLen };
  } finally {
    await checkpoint.close();
  }
}
