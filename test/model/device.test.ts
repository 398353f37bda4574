import { describe, expect, it } from 'vitest';
import type { Adapter, Probe } from '../../src/model/backends/webgpu/adapter.js';
import { chooseDevice } from '../../src/model/device.js';

const adapter: Adapter = {
  name: 'Test card',
  vendor: 'test',
  architecture: '',
  software: false,
  features: ['shader-f16'],
  maxBufferSize: 1,
  maxStorageBufferBindingSize: 1,
};
const probes = {
  hardware: async (): Promise<Probe> => ({ found: true, adapter }),
  software: async (): Promise<Probe> => ({ found: true, adapter: { ...adapter, software: true } }),
  nothing: async (): Promise<Probe> => ({ found: false, reason: 'no adapter answered' }),
  never: async (): Promise<Probe> => {
    throw new Error('not to be asked');
  },
};

describe('--device auto', () => {
  it('takes a hardware adapter', async () => {
    expect(await chooseDevice('auto', 'gguf', probes.hardware)).toMatchObject({ kind: 'webgpu', adapter });
  });

  it.each([
    ['software', /software driver, Test card/],
    ['nothing', /no WebGPU device: no adapter answered/],
  ] as const)('takes the CPU and says why: %s', async (probe, reason) => {
    const device = await chooseDevice('auto', 'gguf', probes[probe]);
    expect(device.kind).toBe('cpu');
    expect(device.reason).toMatch(reason);
    expect(device.reason).not.toContain('\n');
  });

  it('takes whatever adapter there is for an exported graph, which has no other device', async () => {
    expect(await chooseDevice('auto', 'onnx', probes.software)).toMatchObject({ kind: 'webgpu' });
    await expect(chooseDevice('auto', 'onnx', probes.nothing)).rejects.toThrow(/no WebGPU device/);
  });
});

describe('a device by name', () => {
  it('is taken without asking, if it is the CPU', async () => {
    expect(await chooseDevice('cpu', 'gguf', probes.never)).toEqual({ kind: 'cpu', reason: undefined });
    await expect(chooseDevice('cpu', 'onnx', probes.never)).rejects.toThrow(/--device webgpu/);
  });

  it('may be a software adapter, and is refused with what to install when there is none', async () => {
    expect(await chooseDevice('webgpu', 'gguf', probes.software)).toMatchObject({ kind: 'webgpu' });
    await expect(chooseDevice('webgpu', 'gguf', probes.nothing)).rejects.toThrow(
      /no adapter answered.*mesa-vulkan-drivers/,
    );
  });
});
