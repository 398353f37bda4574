import { describe, expect, test } from 'vitest';
import { EngineLoop } from '../../src/engine/loop.js';
import type { EnginePort } from '../../src/engine/port.js';
import type { Command, WorkerMessage } from '../../src/engine/protocol.js';
import { requestOf, runRequests, runScript } from '../support/engine.js';
import { FakeRunner, fakeGreedy, fakeLogits } from '../support/fake-runner.js';

const LIMITS = { maxNumSeqs: 8, maxNumBatchedTokens: 64, maxModelLen: 100 };
const PROMPT = [5, 6, 7, 8, 9];

const runnerOf = (options: Partial<ConstructorParameters<typeof FakeRunner>[0]> = {}) =>
  new FakeRunner({ blockSize: 4, numBlocks: 64, ...options });

const scriptOf = (...entries: (readonly [number, Command])[]) => {
  const script = new Map<number, Command[]>();
  for (const [turn, command] of entries) script.set(turn, [...(script.get(turn) ?? []), command]);
  return script;
};

describe('a request', () => {
  test('gets the model’s tokens, one a step, and one end with its times', async () => {
    const { records, stats } = await runRequests(runnerOf(), LIMITS, [requestOf({ prompt: PROMPT, maxTokens: 4 })]);
    const { outputs, tokens, last, finishes } = records.get('1/0')!;
    expect(tokens).toEqual(fakeGreedy(PROMPT, 4));
    expect(outputs.map((output) => output.tokens.length)).toEqual([1, 1, 1, 1]);
    expect([last.finish, finishes]).toEqual(['length', 1]);
    expect(outputs.map(({ cachedTokens }) => cachedTokens)).toEqual([0, undefined, undefined, undefined]);
    const { arrival, firstScheduled, firstToken, finished, preemptions } = last.timings!;
    expect([arrival, preemptions]).toEqual([0, 0]);
    expect(firstScheduled!).toBeLessThan(firstToken!);
    expect(firstToken!).toBeLessThan(finished);
    expect(stats.map(({ prefillPairs, decodePairs }) => [prefillPairs, decodePairs])).toEqual([
      [10, 0],
      [0, 5],
      [0, 6],
      [0, 7],
      [0, 0],
    ]);
    expect(stats[0]).toMatchObject({ running: 1, prefillTokens: 5, decodeTokens: 0, steps: 1, blocksUsed: 2 });
    expect(stats[3]).toMatchObject({ running: 0, prefillTokens: 0, decodeTokens: 1, steps: 4, blocksUsed: 0 });
    expect(stats.map(({ sequences }) => sequences)).toEqual([1, 1, 1, 1, 0]);
    // Two blocks of four slots hold the prompt's five tokens, then six, then seven.
    expect(stats.map(({ emptySlots }) => emptySlots)).toEqual([3, 2, 1, 0, 0]);
  });

  test('ends with its end token, named', async () => {
    const [, , third] = fakeGreedy(PROMPT, 3);
    const request = requestOf({ prompt: PROMPT, endTokens: [99, third!] });
    const { last, tokens } = (await runRequests(runnerOf(), LIMITS, [request])).records.get('1/0')!;
    expect(last).toMatchObject({ finish: 'stop', stopToken: third });
    expect(tokens).toEqual(fakeGreedy(PROMPT, 3));
  });

  test('never ends before its minimum, whichever of its end tokens is likeliest (case 45, vllm#5849)', async () => {
    const greedy = fakeGreedy(PROMPT, 3);
    const request = requestOf({ prompt: PROMPT, maxTokens: 40, minTokens: 8, endTokens: [greedy[1]!, greedy[2]!] });
    const { tokens } = (await runRequests(runnerOf(), LIMITS, [request])).records.get('1/0')!;
    expect(tokens.length).toBeGreaterThanOrEqual(8);
    for (const token of tokens.slice(0, 8)) expect(request.endTokens).not.toContain(token);
  });

  test('that can never fit is refused before any step, once for each choice', async () => {
    const request = requestOf({ prompt: new Array<number>(100).fill(1), choices: 3 });
    const { records, stats } = await runRequests(runnerOf(), LIMITS, [request]);
    expect(records.size).toBe(3);
    for (const { last, finishes } of records.values()) {
      expect(last).toMatchObject({ finish: 'error', error: { code: 'too_long' }, tokens: [] });
      expect(last.error!.message).toContain('100 tokens');
      expect(finishes).toBe(1);
    }
    expect(stats.at(-1)!.steps).toBe(0);
  });

  test('with several choices draws each on its own, and choice 0 as if it were alone', async () => {
    const sampling = { temperature: 1, seed: 4 };
    const run = async (choices: number) =>
      (await runRequests(runnerOf(), LIMITS, [requestOf({ prompt: PROMPT, choices, sampling })])).records;
    const [three, one] = [await run(3), await run(1)];
    const texts = [0, 1, 2].map((choice) => three.get(`1/${choice}`)!.tokens.join());
    expect(new Set(texts).size).toBe(3);
    expect(texts[0]).toBe(one.get('1/0')!.tokens.join());
  });

  test('seeded gives the same alone and among others, greedy or not (case 21, vllm#51226)', async () => {
    const request = requestOf({ id: 9, prompt: PROMPT, maxTokens: 20, sampling: { temperature: 1, seed: 5 } });
    const others = Array.from({ length: 7 }, (_, id) =>
      requestOf({ id, prompt: [id, 2, 3], maxTokens: 25, sampling: { temperature: id % 2, seed: id } }),
    );
    const solo = (await runRequests(runnerOf(), LIMITS, [request])).records.get('9/0')!;
    const among = (await runRequests(runnerOf(), LIMITS, [...others, request])).records.get('9/0')!;
    expect(among.tokens).toEqual(solo.tokens);
  });

  test('penalized gives the same after preemption (case 44)', async () => {
    const requests = [1, 2, 3].map((id) =>
      requestOf({ id, prompt: [id, id, id], maxTokens: 24, sampling: { presencePenalty: 2, repetitionPenalty: 3 } }),
    );
    const roomy = await runRequests(runnerOf(), LIMITS, requests);
    const tight = await runRequests(runnerOf({ numBlocks: 9 }), LIMITS, requests);
    expect(tight.stats.at(-1)!.preemptions).toBeGreaterThan(0);
    for (const key of ['1/0', '2/0', '3/0']) {
      expect(tight.records.get(key)!.tokens).toEqual(roomy.records.get(key)!.tokens);
    }
  });

  test('that joins in the middle ends before the long ones: batching is continuous', async () => {
    const long = [1, 2, 3].map((id) => requestOf({ id, maxTokens: 60 }));
    const short = requestOf({ id: 4, maxTokens: 5 });
    const { stats } = await runScript(
      runnerOf(),
      LIMITS,
      scriptOf(...long.map((request) => [0, { kind: 'generate', request }] as const), [
        40,
        { kind: 'generate', request: short },
      ]),
    );
    // Turn 40 is 20 steps in; the short one takes 5 more, and the others go on.
    expect(stats.slice(20, 26).map(({ running }) => running)).toEqual([4, 4, 4, 4, 3, 3]);
  });
});

describe('log probabilities', () => {
  test('come with each token, from the logits as they were', async () => {
    const request = requestOf({ prompt: PROMPT, logprobs: 2, sampling: { logitBias: [[3, 100]], temperature: 0.5 } });
    const { outputs } = (await runRequests(runnerOf(), LIMITS, [request])).records.get('1/0')!;
    const history = [...PROMPT];
    for (const { tokens, logprobs } of outputs) {
      expect(tokens).toEqual([3]);
      const logits = fakeLogits(history);
      const normalizer = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
      expect(logprobs).toHaveLength(1);
      expect(logprobs![0]!.token).toBe(3);
      expect(logprobs![0]!.logprob).toBeCloseTo(logits[3]! - normalizer, 6);
      expect(logprobs![0]!.top.map(({ token }) => token)[0]).toBe(logits.indexOf(Math.max(...logits)));
      history.push(3);
    }
  });

  test.each([64, 3, 1])('of the prompt come once, in order, from choice 0 (budget %i)', async (maxNumBatchedTokens) => {
    const prompt = [4, 9, 2, 7, 7, 1, 0, 3, 8];
    const request = requestOf({ prompt, promptLogprobs: 1, maxTokens: 0, choices: 2 });
    const { records } = await runRequests(runnerOf(), { ...LIMITS, maxNumBatchedTokens }, [request]);
    const entries = records.get('1/0')!.outputs.flatMap(({ promptLogprobs }) => promptLogprobs ?? []);
    expect(records.get('1/0')!.last.finish).toBe('length');
    expect(records.get('1/0')!.tokens).toEqual([]);
    expect(records.get('1/1')!.outputs.every(({ promptLogprobs }) => promptLogprobs === undefined)).toBe(true);
    expect(entries.map((entry) => entry?.token)).toEqual([undefined, ...prompt.slice(1)]);
    prompt.slice(1).forEach((token, i) => {
      const logits = fakeLogits(prompt.slice(0, i + 1));
      const normalizer = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
      expect(entries[i + 1]!.logprob).toBeCloseTo(logits[token]! - normalizer, 6);
    });
  });

  test('of the prompt are not told again after a preemption', async () => {
    const requests = [1, 2, 3].map((id) =>
      requestOf({ id, prompt: [id, 1, 2, 3, 4], maxTokens: 24, promptLogprobs: 0, logprobs: 0 }),
    );
    const { records, stats } = await runRequests(runnerOf({ numBlocks: 10 }), LIMITS, requests);
    expect(stats.at(-1)!.preemptions).toBeGreaterThan(0);
    for (const { outputs, tokens } of records.values()) {
      expect(outputs.flatMap(({ promptLogprobs }) => promptLogprobs ?? [])).toHaveLength(5);
      expect(outputs.flatMap(({ logprobs }) => logprobs ?? []).map(({ token }) => token)).toEqual(tokens);
    }
  });
});

describe('an abort', () => {
  test('takes effect in the step under way: its token is dropped, its blocks are back', async () => {
    const { records, stats } = await runScript(
      runnerOf(),
      LIMITS,
      scriptOf(
        [0, { kind: 'generate', request: requestOf({ id: 1, choices: 2 }) }],
        [0, { kind: 'generate', request: requestOf({ id: 2 }) }],
        // Turn 3 is read after the model ran the second step.
        [3, { kind: 'abort', request: 1 }],
      ),
    );
    for (const key of ['1/0', '1/1']) {
      const { outputs, last } = records.get(key)!;
      expect(outputs).toHaveLength(2);
      expect([last.finish, last.tokens]).toEqual(['abort', []]);
    }
    expect(stats[1]).toMatchObject({ running: 1, blocksUsed: 1, steps: 2 });
    expect(records.get('2/0')!.tokens).toEqual(fakeGreedy([1, 2, 3], 8));
  });

  test('ends what waits; of what is unknown or over, nothing', async () => {
    const { records } = await runScript(
      runnerOf(),
      { ...LIMITS, maxNumSeqs: 1 },
      scriptOf(
        [0, { kind: 'generate', request: requestOf({ id: 1 }) }],
        [0, { kind: 'generate', request: requestOf({ id: 2 }) }],
        [2, { kind: 'abort', request: 2 }],
        [4, { kind: 'abort', request: 2 }],
        [4, { kind: 'abort', request: 77 }],
        [60, { kind: 'abort', request: 1 }],
      ),
    );
    expect(records.get('2/0')!.outputs).toMatchObject([{ finish: 'abort', tokens: [] }]);
    expect(records.get('2/0')!.last.timings!.firstScheduled).toBeUndefined();
    expect(records.get('1/0')!).toMatchObject({ finishes: 1, last: { finish: 'length' } });
  });
});

describe('aborts while another’s long prompt is computed (case 8, llama.cpp#27604)', () => {
  const long = Array.from({ length: 80 }, (_, i) => (i * 7) % 32);
  const limits = { ...LIMITS, maxNumSeqs: 4, maxNumBatchedTokens: 8 };

  test('take effect in the step under way, and nothing of the other’s answer changes', async () => {
    const requests = [
      requestOf({ id: 1, prompt: long }),
      // One decodes, one has a part of its own prompt computed, and one waits for a place.
      requestOf({ id: 2, maxTokens: 90 }),
      requestOf({ id: 3, prompt: long.toReversed() }),
      requestOf({ id: 4 }),
    ];
    const { records, stats } = await runScript(
      runnerOf(),
      { ...limits, maxNumSeqs: 3 },
      scriptOf(
        ...requests.map((request) => [0, { kind: 'generate', request }] as const),
        ...[2, 3, 4].map((request) => [9, { kind: 'abort', request }] as const),
      ),
    );
    // Turn 9 is read after the model ran the fifth step: the long prompt is not half done.
    expect(stats[3]).toMatchObject({ steps: 4, running: 3, waiting: 1 });
    expect(stats[4]).toMatchObject({ steps: 5, running: 1, waiting: 0 });
    expect(stats[4]!.blocksUsed).toBeLessThanOrEqual(Math.ceil(long.length / 4));
    for (const key of ['2/0', '3/0', '4/0']) {
      expect(records.get(key)).toMatchObject({ finishes: 1, last: { finish: 'abort', tokens: [] } });
    }
    // It was under way then, and went on.
    expect(records.get('1/0')!.outputs[0]!.tokens).toHaveLength(1);
    expect(stats[5]!.prefillTokens).toBe(8);
    expect(records.get('1/0')!.tokens).toEqual(fakeGreedy(long, 8));
  });

  test('of that prompt itself free its blocks before it is done, and the others go on', async () => {
    const { records, stats } = await runScript(
      runnerOf(),
      limits,
      scriptOf(
        [0, { kind: 'generate', request: requestOf({ id: 1, maxTokens: 30 }) }],
        [2, { kind: 'generate', request: requestOf({ id: 2, prompt: long }) }],
        [9, { kind: 'abort', request: 2 }],
      ),
    );
    expect(stats[3]!.blocksUsed).toBeGreaterThan(4);
    expect(stats[4]).toMatchObject({ running: 1, blocksUsed: 2 });
    expect(records.get('2/0')!.last.finish).toBe('abort');
    expect(records.get('1/0')!.tokens).toEqual(fakeGreedy([1, 2, 3], 30));
  });
});

describe('a failing model', () => {
  test.each(['before', 'garbage'] as const)('ends the requests of that step only (%s)', async (failure) => {
    const runner = runnerOf({ fails: (step) => (step === 2 ? failure : undefined) });
    const { records } = await runScript(
      runner,
      { ...LIMITS, maxNumSeqs: 1 },
      scriptOf(
        [0, { kind: 'generate', request: requestOf({ id: 1 }) }],
        [0, { kind: 'generate', request: requestOf({ id: 2, prompt: PROMPT }) }],
      ),
    );
    const failed = records.get('1/0')!;
    expect(failed.last).toMatchObject({ finish: 'error', error: { code: 'step_failed' }, tokens: [] });
    expect(failed.last.error!.message).toContain('step 2');
    expect(failed.tokens).toEqual(fakeGreedy([1, 2, 3], 2));
    expect(records.get('2/0')!.tokens).toEqual(fakeGreedy(PROMPT, 8));
  });

  test('one row without a finite logit fails its own sequence (case 46, sglang#28153)', async () => {
    const runner = runnerOf({ spoil: (row, step, index) => step === 1 && index === 0 && row.fill(Number.NaN) });
    const requests = [requestOf({ id: 1 }), requestOf({ id: 2, prompt: PROMPT })];
    const { records } = await runRequests(runner, LIMITS, requests);
    expect(records.get('1/0')!.last).toMatchObject({ finish: 'error', error: { code: 'step_failed' } });
    expect(records.get('1/0')!.tokens).toHaveLength(1);
    expect(records.get('2/0')!.tokens).toEqual(fakeGreedy(PROMPT, 8));
  });
});

describe('the loop', () => {
  test('sends one message a step, and none while idle', async () => {
    const { stats } = await runScript(
      runnerOf(),
      LIMITS,
      scriptOf(
        [0, { kind: 'generate', request: requestOf({ id: 1, maxTokens: 3 }) }],
        [30, { kind: 'generate', request: requestOf({ id: 2, maxTokens: 2 }) }],
      ),
    );
    // Three steps, two steps, and the farewell.
    expect(stats.map(({ steps }) => steps)).toEqual([1, 2, 3, 4, 5, 5]);
  });

  test('at shutdown aborts what runs and what waits', async () => {
    const { records, loop } = await runScript(
      runnerOf(),
      { ...LIMITS, maxNumSeqs: 1 },
      scriptOf(
        [0, { kind: 'generate', request: requestOf({ id: 1 }) }],
        [0, { kind: 'generate', request: requestOf({ id: 2 }) }],
        [4, { kind: 'shutdown' }],
      ),
    );
    expect(records.get('1/0')!.last.finish).toBe('abort');
    expect(records.get('2/0')!.last.finish).toBe('abort');
    expect(loop.cache.availableBlocks).toBe(loop.cache.numBlocks);
  });

  test('parks while there is nothing to do', async () => {
    let waits = 0;
    let wake: () => void = () => {};
    const inbox: Command[][] = [];
    const messages: WorkerMessage[] = [];
    const port: EnginePort = {
      receive: () => {
        const commands = inbox.shift();
        return commands === undefined ? undefined : { commands };
      },
      wait: () => {
        waits++;
        return new Promise((resolve) => {
          wake = resolve;
        });
      },
      send: (message) => messages.push(message),
    };
    const running = new EngineLoop(runnerOf(), port, LIMITS).run();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect([waits, messages.length]).toEqual([1, 0]);
    inbox.push([{ kind: 'generate', request: requestOf({ maxTokens: 2 }) }]);
    wake();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect([waits, messages.length]).toEqual([2, 2]);
    inbox.push([{ kind: 'shutdown' }]);
    wake();
    await running;
  });

  test('rejects when its model breaks the contract', async () => {
    const runner = runnerOf();
    Object.defineProperty(runner, 'run', { value: async () => ({ vocabSize: 3, values: new Float32Array(3) }) });
    await expect(runRequests(runner, LIMITS, [requestOf()])).rejects.toThrow('rows of 3 logits');
  });
});
