/**
 * Whether a server's memory stays flat: `node bench/run.mjs memory`. The bundled model with default options under a
 * mixed load (chats and completions, streamed and whole, several choices, log probabilities, long prompts, wrong
 * requests, clients that leave) for `--minutes`. Tells how long the start took, the peak, and resident memory over
 * time; ends with code 1 when the last quarter of the time has over 5 % more than the second, or anything is left over.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { startOwnServer } from '../src/cli/own-server.js';
import { readOptions } from './support/options.js';
import { root } from './support/paths.js';
import { median } from './support/statistics.js';

const options = readOptions({
  minutes: { type: 'string', default: '20' },
  clients: { type: 'string', default: '6' },
});
const duration = Number(options.minutes) * 60_000;
const SAMPLE_MS = 2000;

const before = performance.now();
const server = await startOwnServer(['--log-level', 'error'], join(root, 'dist', 'cli', 'main.js'));
const started = (performance.now() - before) / 1000;

/** Resident, in MiB, pages that are mapped several times counted once; from /proc, which only Linux has. */
function memory(): number {
  const [, kib] = /^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${server.pid}/smaps_rollup`, 'utf8'))!;
  return Number(kib) / 1024;
}

const ids = (count: number, seed: number): number[] =>
  Array.from({ length: count }, (_, i) => 1000 + ((i * 131 + seed * 7919) % 20_000));
const chat = (seed: number): object => ({
  messages: [{ role: 'user', content: `Tell me about the number ${seed}, please.` }],
  max_tokens: 16 + (seed % 48),
});
/** One kind of request for each turn; `leave` is a client that goes away after the first piece of its answer. */
const KINDS: readonly ((seed: number) => { path: string; body: object; leave?: boolean })[] = [
  (seed) => ({ path: '/v1/chat/completions', body: { ...chat(seed), stream: true } }),
  (seed) => ({ path: '/v1/chat/completions', body: chat(seed) }),
  (seed) => ({ path: '/v1/completions', body: { prompt: ids(20 + (seed % 200), seed), max_tokens: 32, stream: true } }),
  (seed) => ({ path: '/v1/completions', body: { prompt: ids(40, seed), max_tokens: 24, n: 3, temperature: 0.9 } }),
  (seed) => ({ path: '/v1/completions', body: { prompt: ids(40, seed), max_tokens: 24, logprobs: 5 } }),
  (seed) => ({ path: '/v1/completions', body: { prompt: ids(1200, seed), max_tokens: 8, stream: true } }),
  (seed) => ({ path: '/v1/chat/completions', body: { ...chat(seed), stream: true, max_tokens: 400 }, leave: true }),
  () => ({ path: '/v1/completions', body: { prompt: 'x', max_tokens: -1 } }),
];

let requests = 0;
let working = true;
async function client(): Promise<void> {
  while (working) {
    const seed = requests++;
    const { path, body, leave } = KINDS[seed % KINDS.length]!(seed);
    const abort = new AbortController();
    const response = await fetch(server.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: abort.signal,
    });
    if (leave === true) {
      await response.body!.getReader().read();
      abort.abort();
    } else {
      await response.text();
    }
  }
}

const samples: number[] = [];
const clients = Array.from({ length: Number(options.clients) }, client);
const begin = performance.now();
while (performance.now() - begin < duration) {
  await sleep(SAMPLE_MS);
  samples.push(memory());
}
working = false;
await Promise.all(clients);
await sleep(1000);
const metrics = await (await fetch(`${server.url}/metrics`)).text();
const left = ['num_requests_running', 'num_requests_waiting'].map((name) =>
  Number(new RegExp(`^vllm:${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(metrics)?.[1]),
);
const peak = Math.max(...samples, memory());
await server.stop();

const quarter = (n: number): number =>
  median(samples.slice(Math.floor((samples.length * n) / 4), Math.floor((samples.length * (n + 1)) / 4)));
const growth = quarter(3) / quarter(1) - 1;
console.log(
  `start ${started.toFixed(1)} s; ${requests} requests in ${options.minutes} minutes; peak ${peak.toFixed(0)} MiB`,
);
console.log(`resident by quarters: ${[0, 1, 2, 3].map((n) => `${quarter(n).toFixed(0)} MiB`).join(', ')}`);
console.log(
  `last quarter over the second: ${(100 * growth).toFixed(1)} %; left running and waiting: ${left.join(', ')}`,
);
process.exitCode = growth > 0.05 || left.some((count) => count !== 0) ? 1 : 0;
