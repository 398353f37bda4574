import { expect, test } from 'vitest';
import { BatchBuilder } from '../../src/engine/batch.js';
import { PagedCache } from '../../src/engine/kv/paged-cache.js';
import { NO_TOKEN, Scheduler } from '../../src/engine/scheduler/scheduler.js';
import { Sequence } from '../../src/engine/sequence.js';
import { requestOf } from '../support/engine.js';

const limits = { maxNumSeqs: 8, maxNumBatchedTokens: 12, maxScoredTokens: 100 };

test('a decode, a scored chunk and the start of a prompt, one after another without padding', () => {
  const scheduler = new Scheduler(new PagedCache(16, 4), limits);
  const builder = new BatchBuilder();
  let order = 0;
  const add = (prompt: number[], rest = {}) =>
    scheduler.add(new Sequence(requestOf({ prompt, ...rest }), 0, order++, 100));

  add([10, 11, 12, 13]);
  let plan = scheduler.schedule(0);
  scheduler.commit(plan, [14]);
  add([20, 21, 22], { promptLogprobs: 1, maxTokens: 2 });
  add([30, 31, 32, 33, 34, 35, 36, 37, 38, 39]);
  plan = scheduler.schedule(0);
  const greedy = (sequence: Sequence) => sequence.promptLength !== 3;
  const batch = builder.build(plan, greedy);
  expect([...batch.tokens]).toEqual([14, 20, 21, 22, 30, 31, 32, 33, 34, 35, 36, 37]);
  expect([...batch.cumulativeLengths]).toEqual([0, 1, 4, 12]);
  expect([...batch.pastLengths]).toEqual([4, 0, 0]);
  expect(batch.maxBlocks).toBe(2);
  expect([...batch.blockTables]).toEqual([0, 1, 2, 0, 3, 4]);
  // Row 0 samples; rows 1 and 2 score the tokens after them, row 3 samples; the last prompt is not done yet.
  expect([...batch.logitRows]).toEqual([0, 1, 2, 3]);
  expect([...batch.greedyRows!]).toEqual([1, 0, 0, 0]);
  expect([plan.prefillTokens, plan.decodeTokens]).toEqual([11, 1]);

  scheduler.commit(plan, [15, 23, NO_TOKEN]);
  const next = builder.build(scheduler.schedule(0), greedy);
  expect([...next.tokens]).toEqual([15, 23, 38, 39]);
  expect([...next.pastLengths]).toEqual([5, 3, 8]);
  expect([...next.blockTables]).toEqual([0, 1, 0, 2, 0, 0, 3, 4, 5]);
  expect([...next.logitRows]).toEqual([0, 1, 3]);
});
