/**
 * Schemathesis against /openapi.json: thousands of requests that fit the document or just do not. None may be answered
 * with 5xx, with a status or a type that the document has not, or with a body that does not fit it.
 * FUZZ_EXAMPLES sets the generated cases of each operation, beside those that cover every keyword of the document.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { clientServer, key } from './support/client-server.js';
import { runPython, scripts } from './support/python.js';

const EXAMPLES = process.env['FUZZ_EXAMPLES'] ?? '15';
/** Answers are short then, whatever they are asked to be. */
const server = clientServer('--max-model-len', '48', '--resume-window', '5s', '--log-level', 'error');

it(`finds no fault in what the server answers, with ${EXAMPLES} examples an operation`, {
  timeout: 1_800_000,
}, async () => {
  const { code, output } = await runPython(
    'st',
    [
      ...['run', `${server.url}/openapi.json`, '--header', `Authorization: Bearer ${key}`],
      ...['--phases', 'coverage,fuzzing', '--max-examples', EXAMPLES, '--seed', '1', '--continue-on-failure'],
      // What the document allows, rules between fields may forbid.
      ...['--exclude-checks', 'positive_data_acceptance', '--suppress-health-check', 'all', '--request-timeout', '120'],
    ],
    {
      cwd: mkdtempSync(join(tmpdir(), 'sluice-schemathesis-')),
      env: { SCHEMATHESIS_HOOKS: 'hooks', PYTHONPATH: scripts },
    },
  );
  expect(output).toMatch(/Test cases:\n +\d+ generated, \d+ passed/);
  expect(code, output).toBe(0);
  const [, generated] = /Test cases:\n +(\d+) generated/.exec(output)!;
  console.log(`${generated} requests`);
  expect(Number(generated)).toBeGreaterThanOrEqual(2000);
  expect((await server.idle()).status).toBe('ok');
});
