/** From an engine configuration to a model that can run: opens the checkpoint, chooses a device, loads it there. */
import type { EngineConfig, KvCacheDtype, Precision } from '../engine/protocol.js';
import { loadCpuModel } from './backends/cpu/load.js';
import { loadWebGpuModel } from './backends/webgpu/load.js';
import { chooseDevice } from './device.js';
import { openCheckpoint } from './formats/open.js';
import type { ModelRunner } from './runner.js';

export interface LoadedModel {
  readonly runner: ModelRunner;
  readonly precision: Precision;
  readonly kvCacheDtype: KvCacheDtype;
  /** The device in one line, and why it was chosen. */
  readonly description: string;
  /** Longest sequence it serves: the least of what was asked for, the model's context and the pool's size. */
  readonly maxModelLen: number;
}

export type LoadProgress = (phase: string, fraction: number) => void;

export async function loadModel(config: EngineConfig, progress: LoadProgress): Promise<LoadedModel> {
  progress('open', 0);
  const checkpoint = await openCheckpoint(config.model);
  try {
    const device = await chooseDevice(config.device, checkpoint.format);
    const { runner, precision, kvCacheDtype } =
      device.kind === 'webgpu'
        ? await loadWebGpuModel(checkpoint, config, device.adapter, progress)
        : await loadCpuModel(checkpoint, config, progress);
    const description = [runner.description, device.reason].filter((part) => part !== undefined).join('; ');
    const maxModelLen = Math.min(
      config.maxModelLen ?? Number.POSITIVE_INFINITY,
      checkpoint.architecture.maxPositions,
      runner.numBlocks * runner.blockSize,
    );
    return { runner, precision, kvCacheDtype, description, maxModelLen };
  } finally {
    await checkpoint.close();
  }
}
