/** The clock that the threads of one process share. */
import { performance } from 'node:perf_hooks';
import type { Seconds } from './protocol.js';

/** Monotonic; seconds since 1970 at `performance.timeOrigin`, so times of different threads compare. */
export function now(): Seconds {
  return (performance.timeOrigin + performance.now()) / 1000;
}
