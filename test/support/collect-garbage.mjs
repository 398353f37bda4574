/**
 * Preloaded (`node --expose-gc --import`) into every thread of a process whose memory is measured: garbage is collected
 * while it is idle, and what malloc has back is given to the system, so that what is resident is what is kept and not how
 * far the heaps were let grow.
 */
import { isMainThread } from 'node:worker_threads';
import koffi from 'koffi';

setInterval(() => globalThis.gc(), 300).unref();
// One call is for the heaps of all threads.
if (isMainThread && process.platform === 'linux') {
  const trim = koffi.load('libc.so.6').func('int malloc_trim(size_t pad)');
  setInterval(() => trim(0), 300).unref();
}
