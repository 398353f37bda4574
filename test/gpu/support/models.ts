/** Models on the device, prepared in a directory of their own that is removed at the end of the test file. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import type { EngineConfig } from '../../../src/engine/protocol.js';
import { type Adapter, probeAdapter } from '../../../src/model/backends/webgpu/adapter.js';
import { type LoadedModel, loadModel } from '../../../src/model/load.js';

export const MODELS = fileURLToPath(new URL('../../fixtures/models', import.meta.url));

const cache = mkdtempSync(join(tmpdir(), 'sluice-gpu-test-'));
process.env['SLUICE_CACHE_DIR'] = cache;
afterAll(() => rmSync(cache, { recursive: true, force: true }));

export function configFor(model: string, overrides: Partial<EngineConfig> = {}): EngineConfig {
  return {
    model,
    device: 'webgpu',
    precision: 'auto',
    threads: 1,
    maxNumSeqs: 8,
    maxNumBatchedTokens: 512,
    maxModelLen: undefined,
    kvCacheMemory: 4 * 2 ** 20,
    blockSize: 32,
    ...overrides,
  };
}

/** A tiny model by name, or any model by path. */
export function loadOnDevice(model: string, overrides: Partial<EngineConfig> = {}): Promise<LoadedModel> {
  return loadModel(configFor(model.includes('/') ? model : join(MODELS, model), overrides), () => {});
}

export async function theAdapter(): Promise<Adapter> {
  const probe = await probeAdapter();
  if (!probe.found) throw new Error(`no adapter: ${probe.reason}`);
  return probe.adapter;
}
