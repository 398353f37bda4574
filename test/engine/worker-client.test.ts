import { getEventListeners } from 'node:events';
import { afterEach, describe, expect, test } from 'vitest';
import { EngineError, type NewRequest } from '../../src/engine/client.js';
import { now } from '../../src/engine/clock.js';
import type { ChoiceOutput, EngineConfig } from '../../src/engine/protocol.js';
import { type StartOptions, startEngine, type WorkerEngineClient } from '../../src/engine/worker-client.js';
import { UserError } from '../../src/errors.js';
import { requestOf } from '../support/engine.js';

const started: WorkerEngineClient[] = [];

afterEach(async () => {
  await Promise.all(started.splice(0).map((client) => client.close()));
});

/** A client of the stub worker, and what the worker said it was told. */
function start(mode: string, options: StartOptions = {}) {
  const told: string[] = [];
  const config: EngineConfig = {
    model: mode,
    device: 'cpu',
    precision: 'auto',
    threads: 0,
    maxNumSeqs: 8,
    maxNumBatchedTokens: 64,
    maxModelLen: undefined,
    kvCacheMemory: 1024,
    blockSize: 16,
  };
  const client = startEngine(config, {
    worker: new URL('../support/stub-worker.mjs', import.meta.url),
    closeTimeout: 1000,
    ...options,
    onProgress: (phase, fraction) => {
      if (fraction === 1) told.push(phase);
      options.onProgress?.(phase, fraction);
    },
  });
  started.push(client);
  return { client, told };
}

function newRequest(overrides: Parameters<typeof requestOf>[0] = {}): NewRequest {
  const { id: _id, arrival: _arrival, ...request } = requestOf(overrides);
  return request;
}

async function collect(stream: AsyncIterable<readonly ChoiceOutput[]>): Promise<ChoiceOutput[]> {
  const outputs: ChoiceOutput[] = [];
  for await (const some of stream) outputs.push(...some);
  return outputs;
}

/** Waits until something holds, for a second at most. */
async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 500 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 2));
  expect(condition()).toBe(true);
}

describe('loading', () => {
  test('tells progress, then is ready', async () => {
    const phases: string[] = [];
    const { client } = start('good', { onProgress: (phase, fraction) => phases.push(`${phase} ${fraction}`) });
    expect([client.state, client.info, client.stats]).toEqual(['loading', undefined, undefined]);
    expect(await client.ready()).toMatchObject({ vocabSize: 100 });
    expect(client.state).toBe('ready');
    expect(client.info).toMatchObject({ maxModelLen: 50 });
    expect(phases).toEqual(['weights 0.5']);
  });

  test.each([
    ['unloadable', UserError],
    ['broken', Error],
  ])('that fails rejects with its reason (%s)', async (mode, type) => {
    const failures: Error[] = [];
    const { client } = start(mode, { onFailure: (error) => failures.push(error) });
    const error = await client.ready().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(type);
    expect(error instanceof UserError).toBe(type === UserError);
    expect((error as Error).message).toBe(`${mode}.gguf: no such file`);
    expect(client.state).toBe('failed');
    await client.close();
    expect(failures).toEqual([error]);
    await expect(collect(client.generate(newRequest()))).rejects.toMatchObject({ code: 'closed' });
  });

  test('can be closed before it is done', async () => {
    const { client } = start('slow');
    const waiting = collect(client.generate(newRequest()));
    const closed = client.close();
    await expect(client.ready()).rejects.toThrow(EngineError);
    await expect(waiting).rejects.toMatchObject({ code: 'closed' });
    await closed;
    expect(client.state).toBe('closed');
  });
});

describe('generate', () => {
  test('yields the outputs of all choices and ends after their finishes', async () => {
    const { client } = start('good');
    const outputs = await collect(client.generate(newRequest({ choices: 2, maxTokens: 3 })));
    expect(outputs.map(({ choice, tokens, finish }) => [choice, ...tokens, finish])).toEqual([
      [0, 10, undefined],
      [1, 10, undefined],
      [0, 11, undefined],
      [1, 11, undefined],
      [0, 12, 'length'],
      [1, 12, 'length'],
    ]);
    expect(client.stats!.steps).toBe(3);
  });

  test('hands over all that came since the last call at once', async () => {
    const { client } = start('good');
    const stream = client.generate(newRequest({ maxTokens: 5 }));
    const first = await stream.next();
    await until(() => client.stats?.steps === 5);
    const second = await stream.next();
    // One came first, or more where this thread was late; then the rest.
    const tokens = [first, second].map(({ value }) => value!.flatMap((output) => output.tokens));
    expect(tokens.map(({ length }) => length > 0)).toEqual([true, true]);
    expect(tokens.flat()).toEqual([10, 11, 12, 13, 14]);
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  test('posts the commands of one tick as one batch', async () => {
    const { client, told } = start('good');
    await client.ready();
    await Promise.all([1, 2, 3].map((maxTokens) => collect(client.generate(newRequest({ maxTokens })))));
    expect(told).toEqual(['generate,generate,generate']);
  });

  test('throws when the engine fails the request, after what came before, and stops its other choices', async () => {
    const { client, told } = start('fault');
    const stream = client.generate(newRequest({ choices: 2, maxTokens: 50 }));
    expect((await stream.next()).value).toHaveLength(2);
    const error = await stream.next().catch((reason: unknown) => reason);
    expect(error).toMatchObject({ name: 'EngineError', code: 'step_failed', message: 'this choice failed' });
    expect(await stream.next()).toEqual({ done: true, value: undefined });
    await until(() => told.includes('abort'));
  });
});

describe('the step that is due', () => {
  test('is none without requests, and late while the engine is silent', async () => {
    const { client } = start('good');
    expect(client.stepDueSince).toBeUndefined();
    await client.ready();
    expect(client.stepDueSince).toBeUndefined();
    const before = now();
    const running = collect(client.generate(newRequest({ maxTokens: 5 })));
    const asked = client.stepDueSince!;
    expect(asked).toBeGreaterThanOrEqual(before);
    await until(() => (client.stats?.steps ?? 0) >= 2);
    expect(client.stepDueSince).toBe(client.stats!.time);
    expect(client.stepDueSince!).toBeGreaterThan(asked);
    await running;
    expect(client.stepDueSince).toBeUndefined();
    await new Promise((resolve) => setTimeout(resolve, 20));
    const later = now();
    const second = client.generate(newRequest({ maxTokens: 1000 }));
    void second.next();
    // The engine rested before it: only its own waiting counts.
    expect(client.stepDueSince!).toBeGreaterThanOrEqual(later);
    await second.return();
    expect(client.stepDueSince).toBeUndefined();
  });

  test('shows every output, also of a request that was left', async () => {
    const seen: ChoiceOutput[] = [];
    const { client } = start('good', { onStep: (_stats, outputs) => seen.push(...outputs) });
    await collect(client.generate(newRequest({ maxTokens: 3 })));
    expect(seen.map(({ tokens }) => tokens[0])).toEqual([10, 11, 12]);
    expect(seen.at(-1)!.finish).toBe('length');
  });
});

describe('an abort', () => {
  test('by leaving the loop', async () => {
    const { client, told } = start('good');
    for await (const outputs of client.generate(newRequest({ maxTokens: 1000 }))) {
      if (outputs.some(({ tokens }) => tokens.includes(12))) break;
    }
    await until(() => told.includes('abort'));
    expect(told).toEqual(['generate', 'abort']);
  });

  test('by signal: the iteration ends without a further output', async () => {
    const { client, told } = start('good');
    const controller = new AbortController();
    const stream = client.generate(newRequest({ maxTokens: 1000 }), controller.signal);
    await stream.next();
    const steps = client.stats!.steps;
    await until(() => client.stats!.steps > steps + 2);
    controller.abort();
    expect(await stream.next()).toEqual({ done: true, value: undefined });
    await until(() => told.includes('abort'));
  });

  test('by signal while a call waits', async () => {
    const { client, told } = start('slow');
    const controller = new AbortController();
    const pending = client.generate(newRequest(), controller.signal).next();
    controller.abort();
    expect(await pending).toEqual({ done: true, value: undefined });
    await until(() => told.includes('generate,abort'));
  });

  test('by return while a call waits', async () => {
    const { client } = start('slow');
    const stream = client.generate(newRequest());
    const pending = stream.next();
    await stream.return();
    expect(await pending).toEqual({ done: true, value: undefined });
  });

  test('before the first call sends nothing', async () => {
    const { client, told } = start('good');
    await client.ready();
    expect(await collect(client.generate(newRequest(), AbortSignal.abort()))).toEqual([]);
    await collect(client.generate(newRequest({ maxTokens: 1 })));
    expect(told).toEqual(['generate']);
  });

  test('after the end is none', async () => {
    const { client, told } = start('good');
    const controller = new AbortController();
    await collect(client.generate(newRequest({ maxTokens: 1 }), controller.signal));
    controller.abort();
    await collect(client.generate(newRequest({ maxTokens: 1 })));
    expect(told).toEqual(['generate', 'generate']);
  });
});

describe('a signal that many requests share', () => {
  test('is let go of by each as it ends, however it does', async () => {
    const { client } = start('fault');
    const { signal } = new AbortController();
    const listeners = () => getEventListeners(signal, 'abort').length;
    const ends = [
      (request: NewRequest) => collect(client.generate(request, signal)),
      async (request: NewRequest) => {
        for await (const _outputs of client.generate({ ...request, maxTokens: 50 }, signal)) break;
      },
      (request: NewRequest) =>
        expect(collect(client.generate({ ...request, maxTokens: 50 }, signal))).rejects.toThrow(),
    ];
    const running = ends.map((end) => end(newRequest({ maxTokens: 1 })));
    expect(listeners()).toBe(3);
    await Promise.all(running);
    expect(listeners()).toBe(0);
    const left = collect(client.generate(newRequest({ maxTokens: 1 }), signal));
    const closed = client.close();
    await expect(left).rejects.toMatchObject({ code: 'closed' });
    await closed;
    expect(listeners()).toBe(0);
  });
});

describe('a worker that dies', () => {
  test.each([
    ['crash', 'out of luck'],
    ['exit', 'code 7'],
  ])('ends every request at once (%s)', async (mode, reason) => {
    const failures: Error[] = [];
    const { client } = start(mode, { onFailure: (error) => failures.push(error) });
    const requests = [1, 2, 3].map(() => collect(client.generate(newRequest({ maxTokens: 1000 }))));
    for (const result of await Promise.allSettled(requests)) {
      expect(result.status).toBe('rejected');
      expect((result as PromiseRejectedResult).reason).toMatchObject({ name: 'EngineError', code: 'closed' });
      expect((result as PromiseRejectedResult).reason.message).toContain(reason);
    }
    expect(client.state).toBe('failed');
    expect(failures).toHaveLength(1);
    await expect(client.generate(newRequest()).next()).rejects.toMatchObject({ code: 'closed' });
    await client.close();
    expect(client.state).toBe('failed');
  });
});

describe('close', () => {
  test('ends what runs with an error and lets the worker finish', async () => {
    const { client, told } = start('good');
    const running = collect(client.generate(newRequest({ maxTokens: 1000 })));
    const ended = expect(running).rejects.toMatchObject({ code: 'closed' });
    await until(() => client.stats !== undefined);
    const closing = client.close();
    expect(client.state).toBe('draining');
    expect(client.close()).toBe(closing);
    await ended;
    await closing;
    expect([client.state, told.at(-1)]).toEqual(['closed', 'shutdown']);
    await expect(client.generate(newRequest()).next()).rejects.toMatchObject({ code: 'closed' });
  });

  test('does not wait forever', async () => {
    const { client } = start('deaf', { closeTimeout: 50 });
    await client.ready();
    await client.close();
    expect(client.state).toBe('closed');
  });
});
