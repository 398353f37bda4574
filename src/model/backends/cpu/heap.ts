/**
 * Gives free memory back to the system. Tensors of every size come and go in the heaps of several threads, which glibc keeps
 * at their largest: what lies free between others would add up over hours.
 */
import { performance } from 'node:perf_hooks';
import koffi from 'koffi';

/** Milliseconds between two trims: one takes about as long as a step, and pages that are needed again have to be cleared. */
const INTERVAL = 30_000;

export class HeapTrimmer {
  #last = performance.now();

  /** @param giveBack glibc's malloc_trim; undefined where memory is not managed by glibc */
  constructor(private readonly giveBack = mallocTrim()) {}

  /** To be called between steps; mostly does nothing. */
  trim(): void {
    const now = performance.now();
    if (now - this.#last < INTERVAL) return;
    this.#last = now;
    this.giveBack?.(0);
  }
}

function mallocTrim(): ((pad: number) => number) | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    return koffi.load('libc.so.6').func('int malloc_trim(size_t pad)') as (pad: number) => number;
  } catch {
    return undefined;
  }
}
