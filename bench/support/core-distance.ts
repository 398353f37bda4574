/**
 * How far apart two cores are: nanoseconds for a word in shared memory to go from one thread to another and back. Machines
 * that are virtual move their cores.
 */
import { performance } from 'node:perf_hooks';
import { Worker } from 'node:worker_threads';

const ROUND_TRIPS = 20_000;

/** Answers each change of the first word with the same number in the second; ends with a negative one. */
const ECHO = `const { workerData } = require('node:worker_threads');
const words = new Int32Array(workerData);
for (let seen = 0; seen >= 0; ) {
  const now = Atomics.load(words, 0);
  if (now === seen) continue;
  seen = now;
  Atomics.store(words, 1, now);
}`;

/** Both threads spin meanwhile, so nothing else should run. */
export async function coreDistance(): Promise<number> {
  const words = new Int32Array(new SharedArrayBuffer(8));
  const worker = new Worker(ECHO, { eval: true, workerData: words.buffer });
  await new Promise((resolve) => worker.once('online', resolve));
  const trip = (value: number) => {
    Atomics.store(words, 0, value);
    while (Atomics.load(words, 1) !== value);
  };
  for (let i = 1; i <= 1000; i++) trip(i);
  const start = performance.now();
  for (let i = 1001; i <= 1000 + ROUND_TRIPS; i++) trip(i);
  const elapsed = performance.now() - start;
  Atomics.store(words, 0, -1);
  await new Promise((resolve) => worker.once('exit', resolve));
  return (elapsed * 1e6) / ROUND_TRIPS;
}
