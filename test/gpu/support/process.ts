/** What the process holds, for tests that watch memory: the software driver's device memory is the process's own. */
import { readFileSync } from 'node:fs';

/** Bytes resident, after a collection where the process allows one. */
export function residentBytes(): number {
  globalThis.gc?.();
  const [, kib] = /VmRSS:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))!;
  return Number(kib) * 1024;
}

export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}
