/** Prepares a checkpoint for WebGPU, or takes an exported graph as it is, and loads it. */
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { EngineConfig, KvCacheDtype, Precision } from '../../../engine/protocol.js';
import { UserError } from '../../../errors.js';
import type { Architecture } from '../../architecture.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import { prepareModel, WEIGHTS_FILE } from '../../prepare.js';
import type { Adapter } from './adapter.js';
import type { CacheShape } from './cache.js';
import { exportedGraph } from './export.js';
import { buildWebGpuGraph, type WebGpuPrecision } from './graph.js';
import { deviceMemory, poolBlocks } from './memory.js';
import { WebGpuRunner, type WebGpuRunnerOptions } from './runner.js';
import { selfCheck } from './self-check.js';
import { matricesAsStored } from './weights.js';
import { distinctWindows } from './windows.js';

const DEFAULT_BLOCK_SIZE = 32;

export async function loadWebGpuModel(
  checkpoint: Checkpoint,
  config: EngineConfig,
  adapter: Adapter,
  progress: (phase: string, fraction: number) => void,
): Promise<{ runner: WebGpuRunner; precision: Precision; kvCacheDtype: KvCacheDtype }> {
  const { architecture } = checkpoint;
  const { kvCacheDtype = 'auto' } = config;
  if (kvCacheDtype !== 'auto' && kvCacheDtype !== 'float16') {
    throw new UserError(`--kv-cache-dtype ${kvCacheDtype} is not available on the GPU; use float16 or auto.`);
  }
  const { blockSize = DEFAULT_BLOCK_SIZE } = config;
  checkShapes(architecture, blockSize);
  const graph =
    checkpoint.graphFile === undefined
      ? await preparedGraph(checkpoint, config, adapter, progress)
      : await exportedGraph(checkpoint.graphFile, config.precision);

  progress('load', 0);
  const shape: Omit<CacheShape, 'numBlocks'> = {
    layers: architecture.layers.length,
    kvHeads: architecture.numKvHeads,
    headSize: architecture.headSize,
    blockSize,
  };
  const request = {
    kvCacheMemory: config.kvCacheMemory,
    gpuMemoryUtilization: config.gpuMemoryUtilization,
    weightBytes: graph.weightBytes,
  };
  const runner = await WebGpuRunner.create({
    ...graph.runner,
    vocabSize: architecture.vocabSize,
    cache: { ...shape, numBlocks: poolBlocks(shape, request, adapter, await deviceMemory(adapter)) },
    description: describe(adapter),
    maxRowsPerEntry: longQueriesAreWrong(adapter, architecture, blockSize) ? 31 : Number.POSITIVE_INFINITY,
  });
  try {
    progress('check', 0);
    if (graph.precision !== undefined) {
      await selfCheck(runner, {
        checkpoint,
        storedAs: matricesAsStored(graph.precision),
        modelFile: graph.runner.modelFile,
        deviceName: adapter.name,
      });
    }
    progress('check', 1);
  } catch (error) {
    await runner.dispose();
    throw error;
  }
  return { runner, precision: graph.precision ?? 'fp16', kvCacheDtype: 'float16' };
}

export interface LoadableGraph {
  readonly runner: Pick<WebGpuRunnerOptions, 'modelFile' | 'repackedWindows' | 'prunedLogits'>;
  readonly weightBytes: number;
  /** Undefined when the parameters are only in the graph, so that nothing can be held against them. */
  readonly precision: WebGpuPrecision | undefined;
}

async function preparedGraph(
  checkpoint: Checkpoint,
  config: EngineConfig,
  adapter: Adapter,
  progress: (phase: string, fraction: number) => void,
): Promise<LoadableGraph> {
  const precision = choosePrecision(config.precision, checkpoint);
  // Mesa's software driver computes the provider's kernel for sliding windows wrongly.
  const windows = adapter.software ? 'repacked' : 'provider';
  const modelFile = await prepareModel(['webgpu', precision, windows, checkpoint.fingerprint], (g, store) =>
    buildWebGpuGraph(g, store, checkpoint, { precision, windows, logitRows: true }, (fraction) =>
      progress('prepare', fraction),
    ),
  );
  const { size } = await stat(join(dirname(modelFile), WEIGHTS_FILE));
  const repackedWindows = windows === 'repacked' ? distinctWindows(checkpoint.architecture) : [];
  return { runner: { modelFile, repackedWindows }, weightBytes: size, precision };
}

/** Files that are quantized to 8 bits or less lose nothing that matters in blocks of 8 bits; others stay in fp16. */
export function choosePrecision(wanted: EngineConfig['precision'], checkpoint: Checkpoint): WebGpuPrecision {
  if (wanted === 'fp32')
    throw new UserError('--precision fp32 is not available on WebGPU; use fp16, int8, int4 or auto.');
  if (wanted !== 'auto') return wanted;
  return checkpoint.info('layers.0.q')?.type.startsWith('Q') ? 'int8' : 'fp16';
}

function checkShapes(architecture: Architecture, blockSize: number): void {
  if (blockSize < 16 || (blockSize & (blockSize - 1)) !== 0) {
    throw new UserError(`--block-size ${blockSize} is not possible on WebGPU: it takes powers of two from 16 on.`);
  }
  if (architecture.headSize % 8 !== 0) {
    throw new UserError(
      `WebGPU's attention takes head sizes that are multiples of 8; this model's is ${architecture.headSize}. Use --device cpu.`,
    );
  }
}

/**
 * On Mesa's software driver the provider's dense kernel, for queries of 32 rows and more, is wrong. It is not used where
 * the fused one for paged caches is: heads up to 128 wide and blocks of at least 32 tokens.
 */
function longQueriesAreWrong(adapter: Adapter, architecture: Architecture, blockSize: number): boolean {
  return adapter.software && (architecture.headSize > 128 || blockSize < 32);
}

function describe(adapter: Adapter): string {
  const mib = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MiB`;
  const features = adapter.features.filter((feature) => /^(shader-f16|subgroups|timestamp-query)$/.test(feature));
  return (
    `ONNX Runtime on WebGPU, ${adapter.name}; buffers up to ${mib(adapter.maxBufferSize)}, ` +
    `${mib(adapter.maxStorageBufferBindingSize)} bound; ${features.join(', ')}`
  );
}
