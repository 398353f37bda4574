/** What requests share: prefixes of other requests, seen from outside the engine. */
import { expect, test } from 'vitest';
import type { Command, GenerationRequest } from '../../src/engine/protocol.js';
import { requestOf, runRequests, runScript } from '../support/engine.js';
import { FakeRunner, fakeGreedy } from '../support/fake-runner.js';

const VOCABULARY = 64;
const LIMITS = { maxNumSeqs: 64, maxNumBatchedTokens: 512, maxModelLen: 2048 };
const runnerOf = (blockSize: number, numBlocks: number) =>
  new FakeRunner({ vocabSize: VOCABULARY, blockSize, numBlocks });

/** One request after the other: each arrives when the one before must be over. */
function inTurn(requests: readonly GenerationRequest[], turns: number): Map<number, Command[]> {
  return new Map(requests.map((request, i) => [i * turns, [{ kind: 'generate', request }]]));
}

const stream = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => (Math.imul(i + 1, 7 + 2 * seed) + (i >> 3) + seed) % VOCABULARY);

test.each([true, false])(
  'a prefix of 1,000 tokens with 32 questions of 20 (prefix cache %s)',
  async (enablePrefixCaching) => {
    const prefix = stream(1, 1000);
    const prompts = Array.from({ length: 33 }, (_, i) => [...prefix, ...stream(50 + i, 20)]);
    const requests = prompts.map((prompt, id) => requestOf({ id, prompt, maxTokens: 4 }));
    const { records, stats } = await runScript(
      runnerOf(32, 1200),
      { ...LIMITS, enablePrefixCaching },
      new Map([
        [0, [{ kind: 'generate', request: requests[0]! }]],
        [20, requests.slice(1).map((request) => ({ kind: 'generate', request }))],
      ]),
    );
    for (const [id, prompt] of prompts.entries()) {
      expect(records.get(`${id}/0`)!.tokens).toEqual(fakeGreedy(prompt, 4, VOCABULARY));
      expect(records.get(`${id}/0`)!.outputs[0]!.cachedTokens).toBe(enablePrefixCaching && id > 0 ? 992 : 0);
    }
    const computed = stats.reduce((sum, { prefillTokens }) => sum + prefillTokens, 0) - 1020;
    const share = computed / (32 * 1020);
    if (enablePrefixCaching) expect(share).toBeLessThan(0.05);
    else expect(share).toBe(1);
    expect(stats.at(-1)).toMatchObject(
      enablePrefixCaching ? { prefixQueries: 33 * 1020, prefixHits: 32 * 992 } : { prefixQueries: 0, prefixHits: 0 },
    );
  },
);

test('a small pool: what is left of a chain is found from its start, what is found agrees with the counter (case 68)', async () => {
  const runner = runnerOf(4, 12);
  const shared = stream(2, 34);
  const fillers = [3, 4, 5].map((seed) => stream(seed, 18));
  const order = [shared, fillers[0]!, shared, fillers[1]!, fillers[2]!, shared, shared];
  const requests = order.map((prompt, id) => requestOf({ id, prompt, maxTokens: 6 }));
  const { records, stats } = await runScript(runner, { ...LIMITS, maxModelLen: 48 }, inTurn(requests, 40));
  const cached = order.map((prompt, id) => {
    const { tokens, outputs } = records.get(`${id}/0`)!;
    expect(tokens).toEqual(fakeGreedy(prompt, 6, VOCABULARY));
    return outputs[0]!.cachedTokens!;
  });
  // The first filler took the last blocks of the chain, the next two more of them; then the chain is whole again.
  expect(cached[0]).toBe(0);
  expect(cached[2]).toBeGreaterThan(0);
  expect(cached[2]).toBeLessThan(32);
  expect(cached[5]).toBeLessThan(cached[2]!);
  expect(cached[6]).toBe(32);
  expect(cached.reduce((a, b) => a + b)).toBe(stats.at(-1)!.prefixHits);
  expect(runner.violations).toEqual([]);
});

test('an answer is a prefix too: the next turn of a chat computes only what is new', async () => {
  const first = stream(6, 20);
  const answer = fakeGreedy(first, 30, VOCABULARY);
  const second = [...first, ...answer, ...stream(7, 5)];
  const requests = [
    requestOf({ id: 1, prompt: first, maxTokens: 30 }),
    requestOf({ id: 2, prompt: second, maxTokens: 3 }),
  ];
  const { records } = await runScript(runnerOf(4, 64), LIMITS, inTurn(requests, 80));
  // Of the 50 tokens of the first turn all but the last were computed.
  expect(records.get('2/0')!.outputs[0]!.cachedTokens).toBe(48);
  expect(records.get('2/0')!.tokens).toEqual(fakeGreedy(second, 3, VOCABULARY));
});

test('a prompt that is cached as a whole computes its last two tokens again, for its logits', async () => {
  const prompt = stream(8, 16);
  const requests = [1, 2].map((id) => requestOf({ id, prompt, maxTokens: 3 }));
  const { records, loop } = await runScript(runnerOf(4, 64), LIMITS, inTurn(requests, 40));
  expect(records.get('2/0')!.outputs[0]!.cachedTokens).toBe(14);
  expect(records.get('2/0')!.tokens).toEqual(fakeGreedy(prompt, 3, VOCABULARY));
  // The block computed twice is kept once.
  expect(loop.cache.cachedBlocks).toBe(4);
});

test('a preempted sequence takes up its own blocks again', async () => {
  const requests = [1, 2, 3].map((id) => requestOf({ id, prompt: stream(id + 10, 9), maxTokens: 30 }));
  const run = (enablePrefixCaching: boolean) =>
    runRequests(runnerOf(4, 22), { ...LIMITS, maxModelLen: 48, enablePrefixCaching }, requests);
  const [on, off] = [await run(true), await run(false)];
  const computed = ({ stats }: typeof on) =>
    stats.reduce((sum, { prefillTokens, decodeTokens }) => sum + prefillTokens + decodeTokens, 0);
  for (const { records, stats } of [on, off]) {
    expect(stats.at(-1)!.preemptions).toBeGreaterThan(0);
    for (const request of requests) {
      expect(records.get(`${request.id}/0`)!.tokens).toEqual(fakeGreedy(request.prompt, 30, VOCABULARY));
    }
  }
  expect(computed(on)).toBeLessThan(computed(off));
});

test('a step that fails publishes nothing', async () => {
  const prompt = stream(9, 24);
  const runner = new FakeRunner({
    vocabSize: VOCABULARY,
    blockSize: 4,
    numBlocks: 64,
    fails: (step) => (step === 1 ? 'garbage' : undefined),
  });
  const requests = [1, 2].map((id) => requestOf({ id, prompt, maxTokens: 3 }));
  const { records } = await runScript(runner, { ...LIMITS, maxNumBatchedTokens: 8 }, inTurn(requests, 40));
  expect(records.get('1/0')!.last.error?.code).toBe('step_failed');
  // The first step's chunk is good, the second's is not.
  expect(records.get('2/0')!.outputs[0]!.cachedTokens).toBe(8);
  expect(records.get('2/0')!.tokens).toEqual(fakeGreedy(prompt, 3, VOCABULARY));
});
