/** How much memory the device has, and how large a cache is taken from it. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { freemem, totalmem } from 'node:os';
import { promisify } from 'node:util';
import { UserError } from '../../../errors.js';
import type { Adapter } from './adapter.js';
import { blockBytes, type CacheShape } from './cache.js';

/** Bytes. */
export interface DeviceMemory {
  readonly total: number;
  readonly free: number;
}

/** Share of the free memory that is taken when nobody says how much. */
const DEFAULT_UTILIZATION = 0.9;

/** Activations, staging buffers and logits, besides weights and cache. */
const WORKING_MEMORY = 512 * 2 ** 20;

/** WebGPU does not tell; the system does, on most. Undefined where it is not known. */
export async function deviceMemory(adapter: Adapter): Promise<DeviceMemory | undefined> {
  if (adapter.software || process.platform === 'darwin') return { total: totalmem(), free: freemem() };
  if (adapter.vendor === 'nvidia') return nvidiaMemory();
  if (process.platform === 'linux') return amdMemory();
  return undefined;
}

async function nvidiaMemory(): Promise<DeviceMemory | undefined> {
  try {
    const query = ['--query-gpu=memory.total,memory.free', '--format=csv,noheader,nounits'];
    const { stdout } = await promisify(execFile)('nvidia-smi', query, { timeout: 10_000 });
    const [total, free] = (stdout.split('\n')[0] as string).split(',').map((mib) => Number(mib) * 2 ** 20);
    return Number.isFinite(total) && Number.isFinite(free) ? { total: total!, free: free! } : undefined;
  } catch {
    return undefined;
  }
}

/** The card with the most memory, as the kernel's amdgpu driver reports it. */
async function amdMemory(): Promise<DeviceMemory | undefined> {
  const cards = '/sys/class/drm';
  let best: DeviceMemory | undefined;
  for (const card of await readdir(cards).catch(() => [])) {
    const read = async (name: string) => Number(await readFile(`${cards}/${card}/device/${name}`, 'utf8'));
    try {
      const total = await read('mem_info_vram_total');
      const free = total - (await read('mem_info_vram_used'));
      if (total > (best?.total ?? 0)) best = { total, free };
    } catch {
      // not a card, or not that driver's
    }
  }
  return best;
}

export interface PoolRequest {
  /** Bytes of the cache that were asked for. */
  readonly kvCacheMemory: number;
  /** Share of the free device memory to use for weights and cache together; takes the place of `kvCacheMemory`. */
  readonly gpuMemoryUtilization: number | undefined;
  readonly weightBytes: number;
}

/**
 * Number of blocks: what was asked for, within what the device can hold and one buffer can bind.
 *
 * @throws UserError when not even one block fits
 */
export function poolBlocks(
  shape: Omit<CacheShape, 'numBlocks'>,
  request: PoolRequest,
  adapter: Adapter,
  memory: DeviceMemory | undefined,
): number {
  const { gpuMemoryUtilization, kvCacheMemory, weightBytes } = request;
  const available =
    memory === undefined
      ? Number.POSITIVE_INFINITY
      : memory.free * (gpuMemoryUtilization ?? DEFAULT_UTILIZATION) - weightBytes - WORKING_MEMORY;
  if (gpuMemoryUtilization !== undefined && memory === undefined) {
    throw new UserError(
      `--gpu-memory-utilization needs to know the memory of ${adapter.name}, which this system does not tell; use --kv-cache-memory.`,
    );
  }
  const bytes = gpuMemoryUtilization === undefined ? Math.min(kvCacheMemory, available) : available;
  const perBlock = blockBytes(shape);
  const bindable = Math.min(adapter.maxStorageBufferBindingSize, adapter.maxBufferSize);
  const blocks = Math.min(Math.floor(bytes / (2 * shape.layers * perBlock)), Math.floor(bindable / perBlock));
  if (blocks < 1) {
    const mib = (n: number) => `${Math.round(n / 2 ** 20)} MiB`;
    throw new UserError(
      `The cache has room for no block on ${adapter.name}: ${mib(bytes)} of memory for it, ` +
        `${mib(2 * shape.layers * perBlock)} a block. Give more memory, a smaller --block-size or a smaller model.`,
    );
  }
  return blocks;
}
