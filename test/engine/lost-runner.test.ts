/** A device that is lost in mid-flight: no request is left without an end, and whoever runs the loop learns why. */
import { expect, test } from 'vitest';
import { EngineLoop } from '../../src/engine/loop.js';
import { RunnerLostError } from '../../src/model/runner.js';
import { requestOf, ScriptedPort } from '../support/engine.js';
import { FakeRunner } from '../support/fake-runner.js';

test('a lost device fails the requests of its step and ends the loop', async () => {
  const runner = new FakeRunner({ blockSize: 4, numBlocks: 16 });
  const run = runner.run.bind(runner);
  let steps = 0;
  runner.run = async (batch) => {
    if (++steps === 3) throw new RunnerLostError('The GPU is gone.');
    return run(batch);
  };
  const requests = [1, 2].map((id) => requestOf({ id, maxTokens: 8 }));
  const port = new ScriptedPort(new Map([[0, requests.map((request) => ({ kind: 'generate', request }) as const)]]));
  const loop = new EngineLoop(runner, port, { maxNumSeqs: 4, maxNumBatchedTokens: 64, maxModelLen: 32 });
  await expect(loop.run()).rejects.toThrow('The GPU is gone.');
  const ends = port.messages.flatMap(({ outputs }) => outputs).filter(({ finish }) => finish !== undefined);
  expect(ends.map(({ request, finish, error }) => [request, finish, error?.code])).toEqual([
    [1, 'error', 'step_failed'],
    [2, 'error', 'step_failed'],
  ]);
  expect(loop.cache.availableBlocks).toBe(loop.cache.numBlocks);
  expect(steps).toBe(3);
});
