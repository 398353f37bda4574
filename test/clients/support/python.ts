/** Programs of the Python environment that .ci/install-clients makes. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const environment = fileURLToPath(new URL('../../../.venv/clients/bin', import.meta.url));
export const scripts = fileURLToPath(new URL('../python', import.meta.url));

export interface Run {
  readonly code: number | null;
  readonly output: string;
}

/** Runs a program of the environment to its end, and gives what it wrote to both its outputs. */
export function runPython(
  program: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: Record<string, string> } = {},
): Promise<Run> {
  const path = `${environment}/${program}`;
  if (!existsSync(path)) throw new Error(`${program} is not installed: run .ci/install-clients first`);
  const child = spawn(path, args, {
    cwd: options.cwd ?? scripts,
    env: { ...process.env, ...options.env, PYTHONDONTWRITEBYTECODE: '1', NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, output }));
  });
}
