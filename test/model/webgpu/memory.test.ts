import { describe, expect, it } from 'vitest';
import type { Adapter } from '../../../src/model/backends/webgpu/adapter.js';
import { stepError } from '../../../src/model/backends/webgpu/faults.js';
import { poolBlocks } from '../../../src/model/backends/webgpu/memory.js';
import { RunnerLostError } from '../../../src/model/runner.js';

const GIB = 2 ** 30;
const adapter: Adapter = {
  name: 'Test card',
  vendor: 'test',
  architecture: '',
  software: false,
  features: ['shader-f16'],
  maxBufferSize: 4 * GIB,
  maxStorageBufferBindingSize: 2 * GIB,
};
/** 64 KiB a block and tensor, 4 MiB a block in all. */
const shape = { layers: 32, kvHeads: 8, headSize: 128, blockSize: 32 };
const request = { kvCacheMemory: GIB, gpuMemoryUtilization: undefined, weightBytes: 0 };

describe('the number of blocks', () => {
  it('is what was asked for where the device has room', () => {
    expect(poolBlocks(shape, request, adapter, { total: 80 * GIB, free: 80 * GIB })).toBe(256);
    expect(poolBlocks(shape, request, adapter, undefined)).toBe(256);
  });

  it('leaves room for weights and work', () => {
    const blocks = poolBlocks(shape, { ...request, weightBytes: 2.25 * GIB }, adapter, {
      total: 4 * GIB,
      free: 4 * GIB,
    });
    expect(blocks).toBe(Math.floor((0.9 * 4 - 2.25 - 0.5) * 256));
  });

  it('fills the share of the free memory that is given', () => {
    const half = { ...request, gpuMemoryUtilization: 0.5, weightBytes: GIB };
    expect(poolBlocks(shape, half, adapter, { total: 24 * GIB, free: 20 * GIB })).toBe((10 - 1 - 0.5) * 256);
  });

  it('ends where one tensor can no longer be bound', () => {
    const large = { ...request, kvCacheMemory: 1000 * GIB };
    expect(poolBlocks(shape, large, adapter, undefined)).toBe((2 * GIB) / 65536);
  });

  it('is refused when it would be none, or cannot be told', () => {
    const full = { total: GIB, free: GIB };
    expect(() => poolBlocks(shape, { ...request, weightBytes: GIB }, adapter, full)).toThrow(/no block on Test card/);
    expect(() => poolBlocks(shape, { ...request, gpuMemoryUtilization: 0.5 }, adapter, undefined)).toThrow(
      /--kv-cache-memory/,
    );
  });
});

describe('a failed step', () => {
  it.each([
    'WebGPU device lost (2): hung',
    'Out of memory allocating 3 GB',
    'VK_ERROR_DEVICE_LOST',
    'Failed to map buffer',
  ])('ends the engine when the device cannot go on: %s', (message) => {
    const error = stepError(new Error(message), 'Test card');
    expect(error).toBeInstanceOf(RunnerLostError);
    expect((error as Error).message).toContain('Test card');
  });

  it('ends only its requests otherwise', () => {
    const error = new Error('Non-zero status code returned while running Gather node');
    expect(stepError(error, 'Test card')).toBe(error);
  });
});
