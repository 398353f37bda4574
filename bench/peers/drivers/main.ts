/** Drivers that run in Node are the benchmark's own bundle, started again with `--driver NAME OPTIONS`. */
import { serveSluice, serveVllm } from './child-server.js';
import { drive } from './driver.js';
import { driveLlama } from './llama.js';
import { serveLlama } from './llama-server.js';
import { openSluice } from './sluice.js';

/** Each with its options as parsed from JSON: what `nodeDriver` was given. */
const DRIVERS = {
  sluice: async (options: Parameters<typeof openSluice>[0]) => drive(await openSluice(options)),
  llama: async (options: Parameters<typeof driveLlama>[0]) => drive(await driveLlama(options)),
  'sluice-server': serveSluice,
  'llama-server': serveLlama,
  'vllm-server': serveVllm,
} as const;

export type DriverName = keyof typeof DRIVERS;
export type DriverOptions<N extends DriverName> = Parameters<(typeof DRIVERS)[N]>[0];

/** Runs the driver that this process was started for, if it was, and ends the process; else returns. */
export async function runDriver(): Promise<void> {
  // So that drivers end with the process that started them, however that ends.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
  const at = process.argv.indexOf('--driver');
  if (at < 0) return;
  const [name, options] = process.argv.slice(at + 1);
  const driver = DRIVERS[name as DriverName] as (options: unknown) => Promise<void>;
  await driver(JSON.parse(options!));
  process.exit(0);
}
