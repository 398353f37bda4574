/** The server that the clients speak to: a tiny model, keys asked for, and what it says about requests. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ChildServer, childServer, fixtureModel } from '../../support/child-server.js';

export const model = 'tiny-llama';
/** Without limits. */
export const key = 'client-key';
/** One request at once: the next is a 429 that says when to come back. */
export const narrowKey = `${key}-narrow`;

/** Starts one for the calling file. */
export function clientServer(...options: string[]): ChildServer {
  const keys = join(mkdtempSync(join(tmpdir(), 'sluice-clients-')), 'keys.json');
  writeFileSync(
    keys,
    JSON.stringify({
      keys: [
        { name: 'clients', key },
        { name: 'narrow', key: narrowKey, max_concurrency: 1 },
      ],
    }),
  );
  return childServer([
    '--model',
    fixtureModel(model),
    '--kv-cache-memory',
    '64MiB',
    '--api-key-file',
    keys,
    ...options,
  ]);
}

/** How many requests have ended with a reason, by /metrics. */
export async function finished(server: ChildServer, reason: string): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const line = new RegExp(`^vllm:request_success_total\\{[^}]*finished_reason="${reason}"[^}]*\\} (\\d+)`, 'm').exec(
    text,
  );
  return Number(line?.[1] ?? 0);
}

/** Waits until so many more requests have been aborted, and nothing runs any more. */
export async function aborted(server: ChildServer, before: number, more: number): Promise<void> {
  const start = performance.now();
  while ((await finished(server, 'abort')) < before + more) {
    if (performance.now() - start > 20_000) throw new Error('the request was not aborted');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await server.idle();
}
