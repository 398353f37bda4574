/** `sluice simulate` as a process: what it prints, what it writes, and what it refuses. */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { bundledStepTimes } from '../../src/simulator/bundled-step-times.js';
import { TERMS } from '../../src/simulator/step-time.js';
import { temporaryDirectory } from '../support/temporary.js';

const directory = temporaryDirectory();
const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

async function simulate(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  try {
    return { code: 0, ...(await promisify(execFile)(process.execPath, [main, 'simulate', ...args])) };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, stdout, stderr };
  }
}

test('prints a column for each load and writes what it found', async () => {
  const json = join(directory, 'simulated.json');
  const { code, stdout } = await simulate(
    ...[
      '--num-requests',
      '300',
      '--request-rate',
      '2,100',
      '--concurrency',
      '4',
      '--max-num-seqs',
      '8',
      '--users',
      '3',
    ],
    ...['--prompt-tokens', '20-60', '--output-tokens', '10', '--shared-prefix-tokens', '64', '--json', json],
  );
  expect(code).toBe(0);
  const [header] = stdout.split('\n');
  for (const label of ['concurrency 4', '2 req/s poisson', '100 req/s poisson']) expect(header).toContain(label);
  expect(stdout).toMatch(/^requests +300 +300 +300$/m);
  expect(stdout).toMatch(/^TTFT p99, ms +\d/m);
  expect(stdout).toContain(bundledStepTimes.description);
  const { settings, results } = JSON.parse(readFileSync(json, 'utf8'));
  expect(settings).toMatchObject({ maxNumSeqs: 8, batching: 'continuous', enablePrefixCaching: true });
  expect(results).toHaveLength(3);
  expect(results[0].summary.requests).toBe(300);
  expect(results[0].summary.prefixHits).toBeGreaterThan(0.4);
  expect(results[2].summary.ttft.p50).toBeGreaterThan(results[1].summary.ttft.p50);
});

test('takes step times from a file, and says what is wrong with one', async () => {
  const file = join(directory, 'times.json');
  const microseconds = TERMS.map((_, i) => (i === 0 ? 1_000_000 : 0));
  writeFileSync(file, JSON.stringify({ description: 'a second each', microseconds, mixedSteps: true }));
  const load = ['--num-requests', '1', '--concurrency', '1', '--prompt-tokens', '10', '--output-tokens', '5'];
  const slow = await simulate(...load, '--step-times', file);
  expect(slow.stdout).toMatch(/^TTFT p50, ms +1000$/m);
  expect(slow.stdout).toMatch(/^TPOT p50, ms +1000$/m);
  expect(slow.stdout).toContain('a second each');
  writeFileSync(file, '{}');
  for (const path of [file, join(directory, 'missing.json')]) {
    const refused = await simulate(...load, '--step-times', path);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain(path);
    expect(refused.stderr.trim().split('\n')).toHaveLength(1);
  }
});
