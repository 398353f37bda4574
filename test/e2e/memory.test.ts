/**
 * What many requests leave behind in a server's memory. V8 lets the young generation of each thread's heap grow to 48 MiB
 * with what is allocated, whatever is kept of it; on a small model that alone is a fifth of what is resident. So it is
 * held at 3 MiB here.
 */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { childServer, fixtureModel } from '../support/child-server.js';
import { eventData } from '../support/server.js';

const collectGarbage = new URL('../support/collect-garbage.mjs', import.meta.url).href;
const server = childServer(
  ['--model', fixtureModel('tiny-llama'), '--precision', 'fp32', '--kv-cache-memory', '16MiB'],
  ['--max-semi-space-size=1', '--expose-gc', '--import', collectGarbage],
);

/** Resident memory once it is the same twice in a row, in MiB; from /proc, which other systems do not have. */
async function resident(): Promise<number> {
  let last = 0;
  for (;;) {
    const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))!;
    const now = Number(kib) / 1024;
    if (Math.abs(now - last) < 1) return now;
    last = now;
    await new Promise((resolve) => setTimeout(resolve, 1500));
  }
}

let sent = 0;

/** Resident memory after `count` requests in all: sixteen clients at a time, every other one streaming. */
async function after(count: number): Promise<number> {
  const client = async (): Promise<void> => {
    while (sent < count) {
      const index = sent++;
      const stream = index % 2 === 0;
      const prompt = [3 + (index % 500), 6, 7, 8, 9];
      const body = { prompt, max_tokens: 12, ignore_eos: true, stream };
      const response = await server.post('/v1/completions', body);
      const text = await response.text();
      expect(response.status).toBe(200);
      if (stream) expect(eventData(text).at(-1)).toBe('[DONE]');
    }
  };
  await Promise.all(Array.from({ length: 16 }, client));
  const memory = await resident();
  console.log(`resident memory after ${count} requests: ${memory.toFixed(1)} MiB`);
  return memory;
}

it.runIf(process.platform === 'linux')(
  'memory after 2,000 short requests is within a tenth of that after 200, and flat from then on',
  async () => {
    const early = await after(200);
    const late = await after(2000);
    expect(late).toBeLessThan(early * 1.1);
    expect(await after(4000)).toBeLessThan(late * 1.05);
  },
  // Thousands of requests take a while on a busy machine.
  300_000,
);
