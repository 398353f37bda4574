/** The check at the start finds what is wrong without an error: other weights, a wrong kernel, overflow. */
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { buildWebGpuGraph } from '../../src/model/backends/webgpu/graph.js';
import { WebGpuRunner } from '../../src/model/backends/webgpu/runner.js';
import { selfCheck } from '../../src/model/backends/webgpu/self-check.js';
import { matricesAsStored } from '../../src/model/backends/webgpu/weights.js';
import { distinctWindows } from '../../src/model/backends/webgpu/windows.js';
import type { Checkpoint } from '../../src/model/formats/checkpoint.js';
import { openCheckpoint } from '../../src/model/formats/open.js';
import { prepareModel } from '../../src/model/prepare.js';
import type { ModelRunner } from '../../src/model/runner.js';
import { loadOnDevice, MODELS, theAdapter } from './support/models.js';

let opened: { runner: ModelRunner; checkpoint: Checkpoint } | undefined;
afterEach(async () => {
  await opened?.runner.dispose();
  await opened?.checkpoint.close();
  opened = undefined;
});

interface Variant {
  readonly precision?: 'fp16' | 'int8' | 'int4';
  readonly windows?: 'provider' | 'repacked';
  /** What the device gets in place of a parameter, and the reference too if `everywhere`. */
  readonly altered?: (name: string, data: Float32Array) => Float32Array;
  readonly everywhere?: boolean;
}

/** Loads a tiny model the way `variant` says, and checks it against the checkpoint. */
async function check(name: string, variant: Variant): Promise<void> {
  const { precision = 'fp16', windows = 'repacked', altered, everywhere = false } = variant;
  const checkpoint = await openCheckpoint(join(MODELS, name));
  const seen: Checkpoint =
    altered === undefined
      ? checkpoint
      : {
          ...checkpoint,
          readFloat32: async (parameter) => altered(parameter, await checkpoint.readFloat32(parameter)),
        };
  const { architecture } = checkpoint;
  const modelFile = await prepareModel([name, precision, windows, String(altered)], (g, store) =>
    buildWebGpuGraph(g, store, seen, { precision, windows, logitRows: true }),
  );
  const runner = await WebGpuRunner.create({
    modelFile,
    vocabSize: architecture.vocabSize,
    cache: {
      layers: architecture.layers.length,
      kvHeads: architecture.numKvHeads,
      headSize: architecture.headSize,
      blockSize: 32,
      numBlocks: 8,
    },
    description: 'a device',
    maxRowsPerEntry: Number.POSITIVE_INFINITY,
    repackedWindows: windows === 'repacked' ? distinctWindows(architecture) : [],
  });
  opened = { runner, checkpoint };
  await selfCheck(runner, {
    checkpoint: everywhere ? seen : checkpoint,
    storedAs: matricesAsStored(precision),
    modelFile,
    deviceName: 'This card',
  });
}

const identity = (_: string, data: Float32Array) => data;

describe('the self-check', () => {
  it.each(['fp16', 'int8', 'int4'] as const)('passes what is right in %s', async (precision) => {
    await check('tiny-llama', { precision });
  });

  it('passes again from what it remembers', async () => {
    await check('tiny-qwen2', { altered: identity });
    await opened!.runner.dispose();
    await check('tiny-qwen2', { altered: identity });
  });

  it('refuses one matrix of another scale', async () => {
    const altered = (name: string, data: Float32Array) => (name === 'layers.1.o' ? data.map((x) => 2 * x) : data);
    await expect(check('tiny-llama', { altered })).rejects.toThrow(
      /This card computes this model wrongly.*--device cpu/,
    );
  });

  it('refuses rows of k in interleaved order', async () => {
    const altered = (name: string, data: Float32Array) => {
      if (!name.endsWith('.k')) return data;
      const width = 64;
      const size = 16;
      return data.map((_, i) => {
        const row = Math.floor(i / width);
        const within = row % size;
        const source = row - within + (within % 2) * (size / 2) + Math.floor(within / 2);
        return data[source * width + (i % width)]!;
      });
    };
    await expect(check('tiny-llama', { altered })).rejects.toThrow(/computes this model wrongly/);
  });

  it('refuses a model whose activations overflow half precision (case 84, onnxruntime#26732)', async () => {
    // Every weight fits, products do not: the gate's and the up projection's outputs multiply.
    const altered = (name: string, data: Float32Array) =>
      /ffnNorm|gate|up/.test(name) ? data.map((x) => 60 * x) : data;
    await expect(check('tiny-llama', { altered, everywhere: true })).rejects.toThrow(
      /not finite \(half precision overflows\)/,
    );
  });

  it("refuses the software driver's kernel for sliding windows, which is wrong", async () => {
    if (!(await theAdapter()).software) return;
    await expect(check('tiny-mistral', { windows: 'provider' })).rejects.toThrow(/computes this model wrongly/);
  });

  it('is part of loading', async () => {
    const phases: string[] = [];
    const { loadModel } = await import('../../src/model/load.js');
    const { configFor } = await import('./support/models.js');
    const loaded = await loadModel(configFor(join(MODELS, 'tiny-phi3')), (phase) => phases.push(phase));
    await loaded.runner.dispose();
    expect(phases).toContain('check');
  });
});

describe('shapes that the device cannot take', () => {
  it.each([8, 48])('refuses blocks of %i tokens', async (blockSize) => {
    await expect(loadOnDevice('tiny-llama', { blockSize })).rejects.toThrow(/powers of two from 16/);
  });

  it('refuses fp32', async () => {
    await expect(loadOnDevice('tiny-llama', { precision: 'fp32' })).rejects.toThrow(/fp16, int8, int4/);
  });
});
