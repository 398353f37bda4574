/** The driver's side of the protocol, for engines that run in Node. */
import { writeSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import type { DriverMessage, RunRequest, RunResult } from '../protocol.js';

export interface DrivenEngine {
  readonly description: string;
  /** @param now seconds since the run's start */
  run(request: RunRequest, now: () => number): Promise<RunResult>;
  close(): Promise<void>;
}

export function send(message: DriverMessage): void {
  const bytes = Buffer.from(`${JSON.stringify(message)}\n`);
  for (let done = 0; done < bytes.length; ) done += writeSync(3, bytes, done);
}

/** Serves requests until the input ends. */
export async function drive(engine: DrivenEngine): Promise<void> {
  send({ kind: 'ready', description: engine.description });
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line) as RunRequest;
    const start = performance.now();
    try {
      const result = await engine.run(request, () => (performance.now() - start) / 1000);
      send({ kind: 'result', ...result });
    } catch (error) {
      send({ kind: 'error', message: error instanceof Error ? error.message : String(error) });
    }
  }
  await engine.close();
}

/** Tells where an engine serves HTTP, and resolves when the input ends. */
export async function announce(description: string, url: string): Promise<void> {
  send({ kind: 'ready', description, url });
  for await (const _ of process.stdin);
}
