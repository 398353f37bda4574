/**
 * What many requests leave behind in a server's memory. V8 lets the young generation of each thread's heap grow to 48 MiB
 * with what is allocated, whatever is kept of it; on a small model that alone is a fifth of what is resident. So it is
 * held at 3 MiB here.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { childServer, fixtureModel } from '../support/child-server.js';
import { scrape } from '../support/exposition.js';
import { eventData } from '../support/server.js';

// Thousands of requests take a while on a busy machine.
vi.setConfig({ testTimeout: 300_000 });

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

/** Resident memory, and what of it is JavaScript's on the thread that serves HTTP, in MiB. */
interface Memory {
  readonly resident: number;
  readonly heap: number;
}

/** Sends bodies, sixteen at a time and every other one streamed, and measures then. */
async function after(what: string, bodies: readonly object[]): Promise<Memory> {
  const waiting = bodies.entries();
  const client = async (): Promise<void> => {
    for (const [index, body] of waiting) {
      const stream = index % 2 === 0;
      const response = await server.post('/v1/completions', { ...body, ignore_eos: true, stream });
      const text = await response.text();
      expect(response.status).toBe(200);
      if (stream) expect(eventData(text).at(-1)).toBe('[DONE]');
    }
  };
  await Promise.all(Array.from({ length: 16 }, client));
  const memory = {
    resident: await resident(),
    heap: (await scrape(server.url)).value('nodejs_heap_size_used_bytes') / 2 ** 20,
  };
  console.log(`after ${what}: resident ${memory.resident.toFixed(1)} MiB, heap ${memory.heap.toFixed(2)} MiB`);
  return memory;
}

describe.runIf(process.platform === 'linux')('memory', () => {
  it('after 2,000 short requests is within a tenth of that after 200, and flat from then on', async () => {
    const short = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => ({ prompt: [3 + ((from + i) % 500), 6, 7, 8, 9], max_tokens: 12 }));
    const early = await after('200 requests', short(0, 200));
    const late = await after('2,000 requests', short(200, 2000));
    expect(late.resident).toBeLessThan(early.resident * 1.1);
    const last = await after('4,000 requests', short(2000, 4000));
    expect(last.resident).toBeLessThan(late.resident * 1.05);
    // Less than half a KiB a request: what is kept of one would be more.
    expect(last.heap).toBeLessThan(late.heap * 1.05);
  });

  // A session that keeps memory for every shape it has met grows with each of these: hardly two steps are alike.
  it('is flat when no two requests have the same shape (case 33, kokoro#358)', async () => {
    const varied = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => {
        const length = 1 + (((from + i) * 7919) % 400);
        const prompt = Array.from({ length }, (_, at) => 3 + (((from + i) * 31 + at * 17) % 500));
        return { prompt, max_tokens: 1 + (((from + i) * 13) % 20) };
      });
    // These also touch all of the cache.
    const early = await after('300 shapes', varied(0, 300));
    const late = await after('1,200 shapes', varied(300, 1200));
    expect(late.resident).toBeLessThan(early.resident * 1.05);
  });
});
