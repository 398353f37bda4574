/** Commands whose reader goes away, as in `sluice generate ... | head`, and those that are interrupted. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { fixtureModel } from '../support/child-server.js';

const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const model = ['--model', fixtureModel('tiny-llama'), '--kv-cache-memory', '8MiB'];

function run(...args: string[]): ChildProcessWithoutNullStreams {
  return spawn(process.execPath, [main, ...args, ...model], { cwd: tmpdir() });
}

async function ended(child: ChildProcessWithoutNullStreams): Promise<{ code: number | null; stderr: string }> {
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stderr };
}

const long = ['generate', 'Hello', '--raw', '--temperature', '0', '--max-tokens', '1000'];

it('generate ends quietly when its reader has gone', async () => {
  const child = run(...long);
  const end = ended(child);
  await once(child.stdout, 'data');
  child.stdout.destroy();
  expect(await end).toEqual({ code: 141, stderr: '' });
});

it.each(['SIGINT', 'SIGTERM'] as const)('generate ends on %s, also while it loads', async (signal) => {
  const generating = run(...long);
  const end = ended(generating);
  await once(generating.stdout, 'data');
  generating.kill(signal);
  expect(await end).toEqual({ code: 130, stderr: '' });

  const loading = run(...long);
  const loadingEnd = ended(loading);
  await new Promise((resolve) => setTimeout(resolve, 1000));
  loading.kill(signal);
  const { code, stderr } = await loadingEnd;
  // Before its handlers are there, the signal itself ends it.
  expect([130, null]).toContain(code);
  expect(stderr).toBe('');
});

it('serve goes on when who read its output and its log has gone', async () => {
  const child = run('serve', '--port', '0');
  const exit = once(child, 'exit');
  let stdout = '';
  for await (const text of child.stdout.setEncoding('utf8')) {
    stdout += text;
    if (stdout.includes('curl')) break;
  }
  const url = /^ {2}address +(\S+)$/m.exec(stdout)![1]!;
  child.stderr.destroy();
  const body = JSON.stringify({ prompt: [5, 6, 7], max_tokens: 2, ignore_eos: true });
  for (let i = 0; i < 3; i++) {
    const response = await fetch(`${url}/v1/completions`, { method: 'POST', body });
    expect(response.status).toBe(200);
    await response.text();
  }
  child.kill('SIGTERM');
  expect(await exit).toEqual([0, null]);
});
