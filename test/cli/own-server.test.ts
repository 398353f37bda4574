import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { type OwnServer, startOwnServer } from '../../src/cli/own-server.js';
import { interTokenLatencies } from '../../src/loadgen/record.js';
import { runLoad } from '../../src/loadgen/run.js';
import { discoverModel, makeAgent, makeTarget } from '../../src/loadgen/target.js';
import { Workload, type WorkloadOptions } from '../../src/loadgen/workload.js';

/** The command line as built: a server is a process of its own. */
const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const model = fileURLToPath(new URL('../fixtures/models/tiny-llama', import.meta.url));

let server: OwnServer | undefined;
afterEach(() => server?.stop());

describe('a server of one’s own', () => {
  it.each(['completions', 'chat'] as const)('is up when its address is known, and serves %s', async (endpoint) => {
    server = await startOwnServer(['--model', model, '--device', 'cpu', '--kv-cache-memory', '16MiB'], main);
    const target = makeTarget(server.url, undefined);
    const options: WorkloadOptions = {
      model: await discoverModel(target),
      endpoint,
      seed: 1,
      promptTokens: { kind: 'uniform', low: 5, high: 20 },
      outputTokens: { kind: 'uniform', low: 3, high: 12 },
      sharedPrefixTokens: 0,
      promptAs: 'ids',
      tokenIds: { low: 10, high: 100 },
      ignoreEos: true,
      continuousUsage: true,
      extraBody: {},
    };
    const { records } = await runLoad(
      { kind: 'closed', concurrency: 4 },
      {
        target,
        agent: makeAgent(target),
        workload: new Workload(options),
        seed: 1,
        limit: { requests: 12 },
        timeout: 30_000,
        signal: new AbortController().signal,
      },
    );
    expect(records.map(({ failure }) => failure).filter(Boolean)).toEqual([]);
    for (const { answer, maxTokens } of records) {
      expect(answer).toMatchObject({ outputTokens: maxTokens, outputTokensFrom: 'usage', chunkTokens: 'server' });
      expect(answer!.chunkSizes.reduce((sum, size) => sum + size, 0)).toBe(maxTokens);
      expect(answer!.promptTokens).toBeGreaterThanOrEqual(5);
      expect(interTokenLatencies(answer!)).toHaveLength(maxTokens - answer!.chunkSizes[0]!);
    }
    await server.stop();
    await expect(discoverModel(target)).rejects.toThrow(/ECONNREFUSED/);
  });

  it('says why it does not start', async () => {
    await expect(startOwnServer(['--model', 'no-such-model.gguf'], main)).rejects.toThrow(
      /did not start.*no-such-model/s,
    );
    await expect(startOwnServer(['--no-such-option'], main)).rejects.toThrow(/unknown option '--no-such-option'/);
  });
});
