/** Servers that are programs of their own: ours as users start it, and vLLM's. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startOwnServer } from '../../../src/cli/own-server.js';
import { root } from '../../support/paths.js';
import { announce } from './driver.js';

/** @param options of `sluice serve` */
export async function serveSluice(options: readonly string[]): Promise<void> {
  const server = await startOwnServer(options, join(root, 'dist', 'cli', 'main.js'));
  await announce(`sluice serve ${options.join(' ')}`, server.url);
  await server.stop();
}

export interface VllmServerOptions {
  readonly python: string;
  readonly env: Readonly<Record<string, string>>;
  readonly model: string;
  readonly threads: number;
  readonly sequences: number;
  readonly length: number;
}

export async function serveVllm({ python, env, model, threads, sequences, length }: VllmServerOptions): Promise<void> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const limits = ['--max-model-len', String(length), '--max-num-seqs', String(sequences)];
  const child = spawn(
    python,
    [
      ...['-m', 'vllm.entrypoints.openai.api_server', '--model', model, '--host', '127.0.0.1', '--port', String(port)],
      ...['--dtype', 'bfloat16', '--max-num-batched-tokens', '2048', '--no-enable-prefix-caching', ...limits],
    ],
    {
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, ...env, VLLM_CPU_OMP_THREADS_BIND: `0-${threads - 1}`, VLLM_CPU_KVCACHE_SPACE: '1' },
    },
  );
  child.once('exit', (code) => process.exit(code ?? 1));
  while (!(await answers(`${url}/health`))) await sleep(500);
  await announce(`vLLM's server, bf16, ${threads} threads`, url);
  child.removeAllListeners('exit');
  child.kill('SIGTERM');
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
