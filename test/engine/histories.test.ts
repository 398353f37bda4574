/** Whatever arrives, leaves, fails or is preempted: each request gets the tokens it would get alone, and ends once. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Batching, Command, GenerationRequest } from '../../src/engine/protocol.js';
import { type ChoiceRecord, requestOf, runRequests, runScript } from '../support/engine.js';
import { FakeRunner, fakeGreedy, type StepFailure } from '../support/fake-runner.js';

const VOCABULARY = 24;
/** The clock of `runScript` goes on by a thousandth each time it is asked. */
const SECONDS_A_TURN = 0.004;

interface Arrival {
  readonly turn: number;
  readonly request: Omit<GenerationRequest, 'id' | 'arrival'>;
  readonly abortAfter: number | undefined;
}

/** Prompts that begin like others, for as long as it takes, and go on in their own way. */
const prompts = fc
  .record({
    common: fc.constantFrom(0, 1, 2),
    length: fc.nat(36),
    own: fc.array(fc.nat(VOCABULARY - 1), { minLength: 1, maxLength: 16 }),
  })
  .map(({ common, length, own }) => [
    ...Array.from({ length }, (_, i) => (i * (common + 3) + common) % VOCABULARY),
    ...own,
  ]);

const arrivals: fc.Arbitrary<Arrival> = fc
  .record({
    turn: fc.nat(20),
    prompt: prompts,
    cacheSalt: fc.constantFrom('', '', '', 'other'),
    promptLogprobs: fc.constantFrom(undefined, undefined, undefined, 0),
    maxTokens: fc.nat(40),
    choices: fc.constantFrom(1, 1, 1, 2, 3, 6),
    priority: fc.constantFrom(0, 0, 0, -1, 2),
    user: fc.constantFrom('', '', 'a', 'b'),
    queueTimeout: fc.constantFrom(undefined, undefined, undefined, 0.08),
    endTokens: fc.constantFrom([], [3], [3, 4]),
    minTokens: fc.constantFrom(0, 0, 5),
    temperature: fc.constantFrom(0, 0, 1),
    frequencyPenalty: fc.constantFrom(0, 0, 1.5),
    repetitionPenalty: fc.constantFrom(1, 1, 1.4),
    seed: fc.nat(1000),
    abortAfter: fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.nat(30) }),
  })
  .map(({ turn, abortAfter, temperature, frequencyPenalty, repetitionPenalty, seed, ...request }) => ({
    turn,
    abortAfter,
    request: requestOf({ ...request, sampling: { temperature, frequencyPenalty, repetitionPenalty, seed } }),
  }));

const histories = fc.record({
  blockSize: fc.constantFrom(1, 2, 4, 8),
  poolTokens: fc.integer({ min: 20, max: 140 }),
  maxNumSeqs: fc.integer({ min: 1, max: 8 }),
  maxNumBatchedTokens: fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 7, max: 64 })),
  maxModelLen: fc.integer({ min: 20, max: 90 }),
  enablePrefixCaching: fc.constantFrom(true, true, false),
  fairShare: fc.constantFrom(true, true, false),
  mixedSteps: fc.boolean(),
  maxNumPartialPrefills: fc.integer({ min: 1, max: 3 }),
  batching: fc.constantFrom<Batching>('continuous', 'continuous', 'continuous', 'dynamic', 'static', 'none'),
  maxWaiting: fc.constantFrom(undefined, undefined, undefined, 2),
  arrivals: fc.array(arrivals, { minLength: 1, maxLength: 10 }),
  failures: fc.dictionary(fc.nat(60).map(String), fc.constantFrom<StepFailure>('before', 'garbage'), { maxKeys: 3 }),
});

test('1,000 random histories: outputs equal solo runs, nothing leaks, nobody starves', async () => {
  const seen = {
    preemptions: 0,
    aborts: 0,
    failures: 0,
    refusals: 0,
    full: 0,
    overdue: 0,
    complete: 0,
    cached: 0,
    begun: 0,
  };
  await fc.assert(
    fc.asyncProperty(histories, async (history) => {
      const { blockSize, poolTokens, arrivals, failures, ...rest } = history;
      const { maxNumBatchedTokens, enablePrefixCaching } = rest;
      const numBlocks = Math.ceil(poolTokens / blockSize);
      const maxModelLen = Math.min(history.maxModelLen, numBlocks * blockSize);
      const limits = { ...rest, maxModelLen, batchWindow: 0.02 };
      const script = new Map<number, Command[]>();
      const at = (turn: number, command: Command) => script.set(turn, [...(script.get(turn) ?? []), command]);
      const requests = arrivals.map(({ turn, request, abortAfter }, index) => {
        const id = index + 1;
        const full: GenerationRequest = { ...request, id, arrival: turn * SECONDS_A_TURN };
        at(turn, { kind: 'generate', request: full });
        if (abortAfter !== undefined) at(turn + abortAfter, { kind: 'abort', request: id });
        return full;
      });

      const runner = new FakeRunner({
        vocabSize: VOCABULARY,
        blockSize,
        numBlocks,
        maxNumBatchedTokens,
        fails: (step) => failures[String(step)],
      });
      const { records, stats, loop } = await runScript(runner, limits, script);
      expect(runner.violations).toEqual([]);
      expect(loop.cache.availableBlocks).toBe(loop.cache.numBlocks);
      expect(stats.at(-1)).toMatchObject({ running: 0, waiting: 0, blocksUsed: 0 });

      let work = 0;
      let longest = 0;
      let hits = 0;
      for (const request of requests) {
        const solo = await alone(request, limits.maxModelLen);
        for (let choice = 0; choice < request.choices; choice++) {
          const record = records.get(`${request.id}/${choice}`)!;
          expect(record.finishes).toBe(1);
          expect(record.last.finish).toBeDefined();
          const expected = solo.get(`${request.id}/${choice}`)!;
          const preemptions = record.last.timings!.preemptions;
          const length = request.prompt.length + record.tokens.length;
          const cached = record.outputs[0]!.cachedTokens!;
          if (cached % blockSize !== 0) seen.begun++;
          expect(cached).toBeLessThan(request.prompt.length);
          if (!enablePrefixCaching || (request.promptLogprobs !== undefined && choice === 0)) expect(cached).toBe(0);
          if (choice === 0) hits += cached;
          work += length * (1 + preemptions);
          longest = Math.max(longest, length);
          seen.preemptions += preemptions;
          switch (record.last.finish) {
            case 'abort':
              seen.aborts++;
              expect(record.tokens).toEqual(expected.tokens.slice(0, record.tokens.length));
              break;
            case 'error':
              switch (record.last.error!.code) {
                case 'too_long':
                  seen.refusals++;
                  expect(record.tokens).toEqual([]);
                  expect(request.prompt.length).toBeGreaterThanOrEqual(maxModelLen);
                  break;
                case 'queue_full':
                  seen.full++;
                  expect(limits.maxWaiting).toBe(2);
                  expect([record.tokens, record.last.timings!.firstScheduled]).toEqual([[], undefined]);
                  break;
                case 'timeout':
                  seen.overdue++;
                  expect(request.queueTimeout).toBeDefined();
                  expect([record.tokens, record.last.timings!.firstScheduled]).toEqual([[], undefined]);
                  break;
                default:
                  seen.failures++;
                  expect(Object.keys(failures).length).toBeGreaterThan(0);
                  expect(record.tokens).toEqual(expected.tokens.slice(0, record.tokens.length));
              }
              break;
            default:
              seen.complete++;
              expect(record.tokens).toEqual(expected.tokens);
              expect(record.last.finish).toBe(expected.last.finish);
              expect(record.last.stopToken).toBe(expected.last.stopToken);
              expect(scores(record)).toEqual(scores(expected));
          }
        }
      }
      // Every step but an empty one computes something that a sequence needs, and preemptions are bounded: sequences are
      // let in with a block to grow into, so those ahead must have grown by a block each time one loses its own, or a user
      // who had nothing running got a place.
      expect(hits).toBeLessThanOrEqual(stats.at(-1)!.prefixHits);
      seen.cached += hits;
      const steps = stats.at(-1)!.steps;
      expect(steps).toBeLessThanOrEqual(work);
      const sequences = requests.reduce((sum, { choices }) => sum + choices, 0);
      for (const record of records.values()) {
        expect(record.last.timings!.preemptions).toBeLessThanOrEqual(sequences * (2 + Math.ceil(longest / blockSize)));
      }
    }),
    { numRuns: 1000, seed: 20, endOnFailure: true },
  );
  // The histories are worth something only if all of this happens in them.
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(100);
});

/** The log probabilities of a choice's prompt, as they came. */
function scores({ outputs }: ChoiceRecord) {
  return outputs.flatMap(({ promptLogprobs }) => promptLogprobs ?? []);
}

/** The request by itself in an engine with plenty of everything, its prompt in one chunk. */
async function alone(request: GenerationRequest, maxModelLen: number) {
  const runner = new FakeRunner({ vocabSize: VOCABULARY, blockSize: 16, numBlocks: 64 });
  const { records } = await runRequests(runner, { maxNumSeqs: 8, maxNumBatchedTokens: 512, maxModelLen }, [request]);
  const { sampling, prompt, endTokens } = request;
  const plain = sampling.temperature === 0 && sampling.frequencyPenalty === 0 && sampling.repetitionPenalty === 1;
  if (plain && endTokens.length === 0) {
    const first = records.get(`${request.id}/0`)!;
    expect(first.tokens).toEqual(fakeGreedy(prompt, first.tokens.length, VOCABULARY));
  }
  return records;
}
