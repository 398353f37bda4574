/** The real worker with a real, tiny model: the whole engine as the server has it. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import type { NewRequest } from '../../src/engine/client.js';
import type { EngineConfig, EngineStats } from '../../src/engine/protocol.js';
import { type StartOptions, startEngine, type WorkerEngineClient } from '../../src/engine/worker-client.js';
import { UserError } from '../../src/errors.js';
import { requestOf } from '../support/engine.js';

const MODEL = fileURLToPath(new URL('../fixtures/models/tiny-llama', import.meta.url));

interface Expected {
  readonly cases: readonly {
    readonly ids: readonly number[];
    readonly greedy: readonly number[];
    readonly greedy_logprobs: readonly number[];
    readonly greedy_gaps: readonly number[];
  }[];
}
const expected = JSON.parse(readFileSync(`${MODEL}/expected.json`, 'utf8')) as Expected;

const started: WorkerEngineClient[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map((client) => client.close()));
});

function start(config: Partial<EngineConfig> = {}, options: StartOptions = {}): WorkerEngineClient {
  const client = startEngine(
    {
      model: MODEL,
      device: 'cpu',
      precision: 'fp32',
      threads: 1,
      maxNumSeqs: 8,
      maxNumBatchedTokens: 32,
      maxModelLen: undefined,
      kvCacheMemory: 2 ** 22,
      blockSize: 16,
      ...config,
    },
    options,
  );
  started.push(client);
  return client;
}

async function generate(client: WorkerEngineClient, overrides: Parameters<typeof requestOf>[0]) {
  const { id: _id, arrival: _arrival, ...request } = requestOf(overrides);
  const tokens: number[] = [];
  const logprobs: number[] = [];
  let finish: string | undefined;
  for await (const outputs of client.generate(request satisfies NewRequest)) {
    for (const output of outputs) {
      tokens.push(...output.tokens);
      logprobs.push(...(output.logprobs ?? []).map(({ logprob }) => logprob));
      finish = output.finish;
    }
  }
  return { tokens, logprobs, finish };
}

// About 16 blocks; nine sequences of 43 to 69 tokens want three to five each. Three share each prompt, so that 10 blocks
// are as tight where prefixes are.
test.each([
  [200_000, false],
  [130_000, true],
])(
  'many at once get the reference’s tokens, also when they must be preempted (case 24; %i bytes, prefixes %s)',
  async (kvCacheMemory, enablePrefixCaching) => {
    const steps: EngineStats[] = [];
    const client = start({ kvCacheMemory, enablePrefixCaching }, { onStep: (stats) => steps.push(stats) });
    const requests = [0, 1, 2].flatMap(() => expected.cases);
    const results = await Promise.all(
      requests.map(({ ids }) => generate(client, { prompt: ids, maxTokens: 40, logprobs: 0 })),
    );
    for (const [i, { greedy, greedy_logprobs, greedy_gaps }] of requests.entries()) {
      const { tokens, logprobs, finish } = results[i]!;
      const sure = greedy_gaps.findIndex((gap) => gap <= 0.001);
      const length = sure < 0 ? greedy.length : sure;
      expect(tokens.slice(0, length)).toEqual(greedy.slice(0, length));
      for (let t = 0; t < length; t++) expect(logprobs[t]!).toBeCloseTo(greedy_logprobs[t]!, 2);
      expect(finish).toBe('length');
    }
    expect(Math.max(...steps.map(({ running }) => running))).toBeGreaterThan(2);
    expect(steps.at(-1)!.preemptions).toBeGreaterThan(0);
    expect(steps.at(-1)).toMatchObject({ running: 0, waiting: 0, blocksUsed: 0 });
    expect(steps.at(-1)!.prefixHits > 0).toBe(enablePrefixCaching);
  },
);

test('choices of one prompt that share its blocks get what they get apart', async () => {
  const ids = expected.cases[0]!.ids;
  const together = start();
  // One at a time, and nothing is shared.
  const apart = start({ maxNumSeqs: 1, enablePrefixCaching: false });
  const choices = async (client: WorkerEngineClient) => {
    const {
      id: _id,
      arrival: _arrival,
      ...request
    } = requestOf({
      prompt: ids.slice(0, 21),
      choices: 4,
      maxTokens: 30,
      sampling: { temperature: 1, seed: 11 },
    });
    const tokens: number[][] = [[], [], [], []];
    for await (const outputs of client.generate(request)) {
      for (const output of outputs) tokens[output.choice]!.push(...output.tokens);
    }
    return tokens;
  };
  const [shared, plain] = [await choices(together), await choices(apart)];
  expect(shared).toEqual(plain);
  expect(new Set(shared.map((tokens) => tokens.join())).size).toBe(4);
});

test('a client that leaves frees its blocks in the step under way', async () => {
  const client = start();
  await client.ready();
  const { id: _id, arrival: _arrival, ...request } = requestOf({ maxTokens: 900 });
  for await (const _outputs of client.generate(request)) break;
  const [{ ids, greedy }] = expected.cases as [Expected['cases'][0]];
  expect((await generate(client, { prompt: ids, maxTokens: 3 })).tokens).toEqual(greedy.slice(0, 3));
  expect(client.stats).toMatchObject({ running: 0, blocksUsed: 0 });
});

test('a model that is not there fails with a message for the user', async () => {
  const client = start({ model: `${MODEL}/missing.gguf` });
  const error: unknown = await client.ready().catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(UserError);
  expect((error as Error).message).toContain('missing.gguf');
  await client.close();
});

test('closing while the model loads stops the loading', async () => {
  const client = start();
  const closed = client.close();
  await expect(client.ready()).rejects.toThrow('closing');
  await closed;
  expect(client.state).toBe('closed');
});
