/** Several completions of one prompt: the prompt is computed once, its blocks are shared until they are written. */
import { describe, expect, test } from 'vitest';
import type { Command, GenerationRequest } from '../../src/engine/protocol.js';
import { requestOf, runRequests, runScript } from '../support/engine.js';
import { FakeRunner, fakeGreedy } from '../support/fake-runner.js';

const LIMITS = { maxNumSeqs: 16, maxNumBatchedTokens: 256, maxModelLen: 1000 };
const prompt = (length: number) => Array.from({ length }, (_, i) => (i * 5 + (i >> 2)) % 32);
const runnerOf = (options: Partial<ConstructorParameters<typeof FakeRunner>[0]> = {}) =>
  new FakeRunner({ blockSize: 32, numBlocks: 256, ...options });

function computed(stats: readonly { prefillTokens: number; decodeTokens: number }[]): number {
  return stats.reduce((sum, { prefillTokens, decodeTokens }) => sum + prefillTokens + decodeTokens, 0);
}

const run = async (choices: number, rest: Partial<GenerationRequest> = {}, limits = {}, runner = runnerOf()) => {
  const request = requestOf({ prompt: prompt(500), maxTokens: 32, sampling: { temperature: 1, seed: 3 }, choices });
  return runRequests(runner, { ...LIMITS, ...limits }, [{ ...request, ...rest }]);
};

describe.each([true, false])('with the prefix cache %s', (enablePrefixCaching) => {
  const limits = { enablePrefixCaching };

  test('8 choices of 500 tokens compute the prompt once and share all of its full blocks', async () => {
    const [one, eight] = [await run(1, {}, limits), await run(8, {}, limits)];
    // The last token of each choice is never computed.
    expect(computed(one.stats)).toBe(500 + 31);
    expect(computed(eight.stats)).toBe(500 + 8 * 31);
    const peak = ({ stats }: typeof one) => Math.max(...stats.map(({ blocksUsed }) => blocksUsed));
    // 15 full blocks hold 480 tokens; each choice has its own two for the other 20 and the 31 that follow.
    expect(peak(one)).toBe(17);
    expect(peak(eight)).toBe(15 + 8 * 2);
    // All have their first token with the prompt.
    expect(eight.stats.at(-1)!.steps).toBe(one.stats.at(-1)!.steps);
  });

  test('each choice gets what it gets when the others are computed apart', async () => {
    const together = await run(8, {}, limits);
    // One at a time, and never forked: the other choices wait until the one before them has ended.
    const apart = await run(8, {}, { ...limits, maxNumSeqs: 1 });
    for (let choice = 0; choice < 8; choice++) {
      const key = `1/${choice}`;
      expect(together.records.get(key)!.tokens).toEqual(apart.records.get(key)!.tokens);
      expect(together.records.get(key)!.finishes).toBe(1);
    }
    expect(new Set([...together.records.values()].map(({ tokens }) => tokens.join())).size).toBe(8);
  });

  test('choices that have no room start when there is some', async () => {
    const runner = runnerOf({ numBlocks: 24 });
    const { records, stats } = await run(8, {}, { ...limits, maxNumSeqs: 3 }, runner);
    const roomy = await run(8, {}, limits);
    for (const [key, { tokens, finishes }] of records) {
      expect(finishes).toBe(1);
      expect(tokens).toEqual(roomy.records.get(key)!.tokens);
    }
    expect(runner.violations).toEqual([]);
    expect(Math.max(...stats.map(({ running }) => running))).toBe(3);
    expect(stats[0]!.waiting).toBe(7);
  });

  test('with nothing to generate end with the prompt', async () => {
    const { records, stats } = await run(8, { maxTokens: 0, promptLogprobs: 0 }, { ...limits, maxNumSeqs: 2 });
    expect(computed(stats)).toBe(500);
    for (const { last, tokens } of records.values()) expect([last.finish, tokens]).toEqual(['length', []]);
    expect(records.get('1/0')!.outputs.flatMap(({ promptLogprobs }) => promptLogprobs ?? [])).toHaveLength(500);
  });

  test('fail together when the step of their prompt fails', async () => {
    for (const failing of [0, 1]) {
      const runner = runnerOf({ fails: (step) => (step === failing ? 'garbage' : undefined) });
      const { records, loop } = await run(4, {}, limits, runner);
      expect(records.size).toBe(4);
      for (const { last, tokens } of records.values()) {
        expect([last.finish, last.error?.code, tokens]).toEqual(['error', 'step_failed', []]);
      }
      expect(loop.cache.availableBlocks).toBe(256);
    }
  });

  test('leave nothing behind when their request is aborted while the prompt is computed, or with the first token', async () => {
    for (const turn of [1, 2, 3, 4, 5]) {
      const request = requestOf({ prompt: prompt(500), maxTokens: 32, choices: 5 });
      const other = requestOf({ id: 2, prompt: [9, 8, 7], maxTokens: 12 });
      const script = new Map<number, Command[]>([
        [
          0,
          [
            { kind: 'generate', request },
            { kind: 'generate', request: other },
          ],
        ],
        [turn, [{ kind: 'abort', request: 1 }]],
      ]);
      const { records, stats } = await runScript(runnerOf(), { ...LIMITS, ...limits }, script);
      for (let choice = 0; choice < 5; choice++) {
        expect(records.get(`1/${choice}`)).toMatchObject({ finishes: 1, last: { finish: 'abort' } });
      }
      expect(records.get('2/0')!.tokens).toEqual(fakeGreedy([9, 8, 7], 12));
      expect(stats.at(-1)).toMatchObject({ running: 0, waiting: 0, blocksUsed: 0 });
    }
  });

  test('of a greedy request are equal, also when the first ends with its first token', async () => {
    const tokens = fakeGreedy(prompt(40), 3);
    const request = requestOf({ prompt: prompt(40), maxTokens: 3, choices: 3 });
    const { records } = await runRequests(runnerOf(), { ...LIMITS, ...limits }, [request]);
    for (const record of records.values()) expect(record.tokens).toEqual(tokens);
    const ending = { ...request, endTokens: [tokens[0]!] };
    const ended = await runRequests(runnerOf(), { ...LIMITS, ...limits }, [ending]);
    for (const { last, finishes } of ended.records.values()) expect([last.finish, finishes]).toEqual(['stop', 1]);
  });
});
