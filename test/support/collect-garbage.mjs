/**
 * Preloaded (`node --expose-gc --import`) into every thread of a process whose memory is measured: garbage is collected
 * while it is idle, so that what is resident is what is kept and not how far the heap was let grow.
 */
setInterval(() => globalThis.gc(), 300).unref();
