/** What many requests leave behind in a server's memory. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { childServer, fixtureModel } from '../support/child-server.js';
import { eventData } from '../support/server.js';

const collectGarbage = new URL('../support/collect-garbage.mjs', import.meta.url).href;
const server = childServer(
  ['--model', fixtureModel('tiny-llama'), '--precision', 'fp32', '--kv-cache-memory', '16MiB'],
  ['--expose-gc', '--import', collectGarbage],
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

/** Sixteen clients at a time, every other one streaming. */
async function send(count: number): Promise<void> {
  let next = 0;
  const client = async (): Promise<void> => {
    while (next < count) {
      const index = next++;
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
}

it.runIf(process.platform === 'linux')(
  'memory after 2,000 short requests is within a tenth of that after 200',
  async () => {
    await send(200);
    const early = await resident();
    await send(1800);
    const late = await resident();
    console.log(`resident memory: ${early.toFixed(0)} MiB after 200 requests, ${late.toFixed(0)} MiB after 2,000`);
    expect(late).toBeLessThan(early * 1.1);
  },
  // 2,000 requests take a while on a busy machine.
  300_000,
);
