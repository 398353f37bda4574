/** Which device a model runs on, and why. */
import type { EngineConfig } from '../engine/protocol.js';
import { UserError } from '../errors.js';
import { type Adapter, type Probe, probeAdapter } from './backends/webgpu/adapter.js';

export type Device =
  | { readonly kind: 'cpu'; readonly reason: string | undefined }
  | { readonly kind: 'webgpu'; readonly adapter: Adapter; readonly reason: string | undefined };

const WHAT_TO_INSTALL =
  'Install a GPU driver with Vulkan (Debian: mesa-vulkan-drivers and libvulkan1, Mesa 24 or newer; NVIDIA: its own ' +
  'driver), or use --device cpu.';

/**
 * `auto` takes a GPU when a hardware adapter answers; a software adapter is taken only when WebGPU is asked for by name.
 *
 * @throws UserError when WebGPU is asked for and there is no adapter
 */
export async function chooseDevice(
  wanted: EngineConfig['device'],
  format: 'gguf' | 'safetensors' | 'onnx',
  probe: () => Promise<Probe> = probeAdapter,
): Promise<Device> {
  const exported = format === 'onnx';
  if (wanted === 'cpu') {
    if (exported)
      throw new UserError('An exported graph with paged attention runs on WebGPU only; use --device webgpu.');
    return { kind: 'cpu', reason: undefined };
  }
  const found = await probe();
  if (wanted === 'webgpu' || exported) {
    if (!found.found) throw new UserError(`There is no WebGPU device: ${found.reason}. ${WHAT_TO_INSTALL}`);
    return { kind: 'webgpu', adapter: found.adapter, reason: undefined };
  }
  if (!found.found) return { kind: 'cpu', reason: `chosen because there is no WebGPU device: ${found.reason}` };
  if (found.adapter.software) {
    return {
      kind: 'cpu',
      reason: `chosen because the only WebGPU device is a software driver, ${found.adapter.name}; --device webgpu takes it`,
    };
  }
  return { kind: 'webgpu', adapter: found.adapter, reason: 'chosen because a hardware adapter answered' };
}
