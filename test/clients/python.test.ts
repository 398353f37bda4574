/** Clients in Python, unmodified: each script checks its client function by function, and each check is a test here. */
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { aborted, clientServer, finished, key, model } from './support/client-server.js';
import { runPython, scripts } from './support/python.js';

const server = clientServer();

/** The names in the script's closing call of `run`. */
function checksOf(script: string): string[] {
  const source = readFileSync(`${scripts}/${script}`, 'utf8');
  const [, names] = /^run\(([^)]*)\)$/m.exec(source)!;
  return names!.split(',').flatMap((name) => name.trim() || []);
}

describe.each([
  ['openai (PyPI)', 'openai_client.py'],
  ['litellm (PyPI)', 'litellm_client.py'],
  ['langchain-openai (PyPI)', 'langchain_client.py'],
])('%s', (_, script) => {
  const outcomes = new Map<string, string | null>();
  let output = '';
  let abortedBefore = 0;
  beforeAll(async () => {
    abortedBefore = await finished(server, 'abort');
    const env = { SLUICE_BASE_URL: `${server.url}/v1`, SLUICE_KEY: key, SLUICE_MODEL: model };
    ({ output } = await runPython('python', [script], { env }));
    for (const [, line] of output.matchAll(/^CHECK (.+)$/gm)) {
      const { name, error } = JSON.parse(line!) as { name: string; error: string | null };
      outcomes.set(name, error);
    }
  });

  it.each(checksOf(script))('%s', (name) => {
    if (!outcomes.has(name)) throw new Error(`the script did not get to it:\n${output}`);
    expect(outcomes.get(name)).toBeNull();
  });

  if (script === 'openai_client.py') {
    it('leaves nothing running that it gave up', async () => {
      await aborted(server, abortedBefore, 16 + 64 + 1);
    });
  }
});
