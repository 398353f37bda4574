import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PagedCache } from '../../../src/engine/kv/paged-cache.js';
import type { Plan } from '../../../src/engine/scheduler/plan.js';
import { refusal } from '../../../src/engine/scheduler/refusal.js';
import { chunkLength } from '../../../src/engine/scheduler/token-budget.js';
import type { Sequence } from '../../../src/engine/sequence.js';
import { requestOf } from '../../support/engine.js';
import { setUpScheduling as setUp, tokensFor } from '../../support/scheduling.js';

describe('a step', () => {
  test('mixes decodes and prefills, decodes first, within the budget', () => {
    const { add, step } = setUp({ maxNumBatchedTokens: 16 });
    const [a, b] = [add(3, 10), add(4, 10)];
    expect(step()).toEqual([
      { sequence: a, start: 0, count: 3, samples: true },
      { sequence: b, start: 0, count: 4, samples: true },
    ]);
    const c = add(40, 10);
    expect(step()).toEqual([
      { sequence: a, start: 3, count: 1, samples: true },
      { sequence: b, start: 4, count: 1, samples: true },
      { sequence: c, start: 0, count: 12, samples: false },
    ]);
    expect(step().at(-1)).toEqual({ sequence: c, start: 12, count: 12, samples: false });
    step();
    expect(step().at(-1)).toEqual({ sequence: c, start: 36, count: 4, samples: true });
  });

  test('admits in order of priority, then arrival, up to maxNumSeqs', () => {
    const { add, step, scheduler } = setUp({ maxNumSeqs: 3 });
    const late = add(2, 3, { arrival: 9 });
    const early = add(2, 3, { arrival: 1 });
    const urgent = add(2, 3, { arrival: 20, priority: -1 });
    const last = add(2, 3, { arrival: 0, priority: 1 });
    expect(step().map(({ sequence }) => sequence)).toEqual([urgent, early, late]);
    expect([scheduler.running, scheduler.waiting]).toEqual([3, 1]);
    step();
    step();
    expect(step().map(({ sequence }) => sequence)).toEqual([last]);
  });

  test('a sequence that joins does not wait for others to end', () => {
    const { add, step } = setUp();
    const long = add(2, 400);
    for (let i = 0; i < 50; i++) step();
    const short = add(4, 5);
    for (let i = 0; i < 5; i++) step();
    expect([short.state, long.state]).toEqual(['finished', 'running']);
  });
});

describe('chunks of a prompt', () => {
  test('end on block borders, or at the prompt’s end', () => {
    expect(chunkLength(0, 100, 50, 16, true)).toBe(48);
    expect(chunkLength(48, 52, 50, 16, true)).toBe(48);
    expect(chunkLength(96, 4, 50, 16, true)).toBe(4);
    expect(chunkLength(5, 95, 50, 16, true)).toBe(43);
  });

  test('break a block only when nothing else could be taken', () => {
    expect(chunkLength(0, 100, 10, 16, true)).toBe(10);
    expect(chunkLength(0, 100, 10, 16, false)).toBe(0);
    expect(chunkLength(10, 90, 6, 16, false)).toBe(6);
    expect(chunkLength(0, 100, 0, 16, true)).toBe(0);
  });

  test('leave no token alone, unless a step has room for one only', () => {
    expect(chunkLength(0, 49, 48, 16, true)).toBe(32);
    expect(chunkLength(0, 17, 16, 16, true)).toBe(15);
    expect(chunkLength(0, 17, 16, 16, false)).toBe(0);
    expect(chunkLength(48, 2, 1, 16, true)).toBe(1);
  });

  test('ask for no more scored rows than a step may have', () => {
    const { add, step } = setUp({ maxScoredTokens: 8, maxNumBatchedTokens: 64 });
    const scored = add(20, 5, { promptLogprobs: 0 });
    const plain = add(20, 5);
    expect(step().map(({ sequence, count }) => [sequence, count])).toEqual([
      [scored, 8],
      [plain, 20],
    ]);
  });
});

describe('the budget', () => {
  test('decodes run in every step while a long prompt is taken in', () => {
    const { add, step } = setUp({ maxNumBatchedTokens: 16, numBlocks: 400 });
    const decodes = Array.from({ length: 4 }, () => add(3, 300));
    step();
    const long = add(600, 5);
    let steps = 0;
    for (; long.computed < 600 && steps < 200; steps++) {
      const chunks = step();
      for (const decode of decodes) expect(chunks.some(({ sequence }) => sequence === decode)).toBe(true);
    }
    expect(steps).toBe(50);
  });

  test.each([1, 2, 3, 5, 8])('%i tokens: every running sequence gets its turn, decodes and prefills', (budget) => {
    const { add, step } = setUp({ maxNumBatchedTokens: budget, blockSize: 1, numBlocks: 9000 });
    const decodes = Array.from({ length: 6 }, () => add(1, 900));
    while (decodes.some(({ generated }) => generated === 0)) step();
    const prefill = add(300, 5);
    const before = decodes.map(({ generated }) => generated);
    for (let i = 0; i < 120; i++) step();
    const shares = decodes.map(({ generated }, i) => generated - before[i]!);
    const forDecodes = Math.min(120 * 6, budget * 120 * (3 / 4));
    expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
    expect(shares.reduce((a, b) => a + b)).toBeGreaterThanOrEqual(Math.floor(forDecodes) - 6);
    expect(prefill.computed).toBeGreaterThanOrEqual(Math.floor(budget * 120 * (1 / 4)) - budget);
  });
});

describe('when blocks run out', () => {
  test('the youngest of the lowest priority loses its blocks, keeps its tokens and its place', () => {
    const { add, step, cache } = setUp({ numBlocks: 6, blockSize: 4, maxNumSeqs: 4 });
    const important = add(4, 17, { priority: -1 });
    const old = add(4, 17);
    const young = add(4, 17);
    expect(step().map(({ sequence }) => sequence)).toEqual([important, old, young]);
    const later = add(4, 4);
    while (young.preemptions === 0) step();
    expect([important.preemptions, old.preemptions, later.preemptions]).toEqual([0, 0, 0]);
    expect([young.state, young.computed, young.blocks.length]).toEqual(['waiting', 0, 0]);
    const generated = young.generated;
    expect(generated).toBeGreaterThan(0);
    while (young.state === 'waiting') {
      expect(later.state).toBe('waiting');
      step();
    }
    expect(young.computed).toBeGreaterThanOrEqual(4 + generated);
    for (let i = 0; i < 100; i++) step();
    expect([important, old, young, later].map(({ finish }) => finish)).toEqual([
      'length',
      'length',
      'length',
      'length',
    ]);
    expect(cache.pool.usedBlocks).toBe(0);
  });

  test('one of higher priority takes the place of those below it, and only if that is enough (case 70, vllm#45561)', () => {
    const { add, step } = setUp({ numBlocks: 8, blockSize: 4, maxNumSeqs: 2 });
    const [a, b] = [add(8, 8), add(8, 8)];
    step();
    const same = add(4, 4);
    step();
    expect([a.state, b.state, same.state]).toEqual(['running', 'running', 'waiting']);
    const urgent = add(4, 4, { priority: -5 });
    step();
    expect([a.state, b.state, urgent.state]).toEqual(['running', 'waiting', 'running']);
    expect([a.preemptions, b.preemptions]).toEqual([0, 1]);
  });

  test('small requests and a big one all end, whichever comes first (case 70, vllm#36390)', () => {
    const { add, step, scheduler } = setUp({ numBlocks: 20, blockSize: 4, maxNumSeqs: 6, maxNumBatchedTokens: 24 });
    const before = Array.from({ length: 5 }, () => add(4, 6));
    const big = add(60, 16);
    const after = Array.from({ length: 20 }, () => add(4, 6));
    const ends = new Map<Sequence, number>();
    let steps = 0;
    for (; scheduler.hasWork && steps < 500; steps++) {
      step();
      // New small ones keep coming while the big one is there.
      if (big.state !== 'finished' && steps % 2 === 0) after.push(add(4, 6));
      for (const sequence of [...before, big, ...after]) {
        if (sequence.state === 'finished' && !ends.has(sequence)) ends.set(sequence, steps);
      }
    }
    expect(scheduler.hasWork).toBe(false);
    expect(ends.get(big)!).toBeLessThan(40);
    expect(Math.max(...[...before, big, ...after].map(({ preemptions }) => preemptions))).toBeLessThanOrEqual(1);
  });
});

describe('a failed step', () => {
  test('is forgotten: the next plan is the same', () => {
    const { scheduler, add, step, cache } = setUp({ maxNumBatchedTokens: 16 });
    add(3, 5);
    step();
    add(30, 5);
    const look = (plan: Plan) => plan.chunks.map(({ sequence, start, count }) => [sequence.order, start, count]);
    const used = cache.pool.usedBlocks;
    const plan = scheduler.schedule(1);
    const first = look(plan);
    scheduler.rollback(plan);
    scheduler.check();
    expect(cache.pool.usedBlocks).toBe(used);
    expect(look(scheduler.schedule(2))).toEqual(first);
  });

  test('leaves sequences that ended meanwhile alone', () => {
    const { scheduler, add, cache } = setUp();
    const sequence = add(3, 5);
    const plan = scheduler.schedule(1);
    scheduler.finish(sequence, 'abort');
    expect(cache.pool.usedBlocks).toBe(0);
    scheduler.rollback(plan);
    scheduler.finish(sequence, 'error');
    expect(sequence.finish).toBe('abort');
    scheduler.check();
  });
});

describe('finish', () => {
  test('takes a sequence out of the middle of the queue', () => {
    const { scheduler, add, step } = setUp({ maxNumSeqs: 1 });
    const sequences = Array.from({ length: 9 }, () => add(2, 2));
    scheduler.finish(sequences[4]!, 'abort');
    const order: number[] = [];
    while (scheduler.hasWork) order.push(...step().map(({ sequence }) => sequence.order));
    expect([...new Set(order)]).toEqual([0, 1, 2, 3, 5, 6, 7, 8]);
  });

  test('the waiting queue serves in order under any history', () => {
    const operations = fc.array(fc.oneof(fc.record({ priority: fc.nat(2), arrival: fc.nat(5) }), fc.nat()), {
      maxLength: 200,
    });
    fc.assert(
      fc.property(operations, (steps) => {
        const { scheduler, add } = setUp({ maxNumSeqs: 1, maxNumBatchedTokens: 1000 });
        let waiting: Sequence[] = [];
        for (const step of steps) {
          if (typeof step === 'number') {
            const [removed] = waiting.splice(step % Math.max(1, waiting.length), 1);
            if (removed !== undefined) scheduler.finish(removed, 'abort');
          } else {
            waiting.push(add(1, 1, step));
          }
        }
        waiting = waiting.sort(
          (a, b) =>
            a.request.priority - b.request.priority || a.request.arrival - b.request.arrival || a.order - b.order,
        );
        const served: Sequence[] = [];
        while (scheduler.hasWork) {
          const plan = scheduler.schedule(0);
          served.push(plan.chunks[0]!.sequence);
          scheduler.commit(plan, tokensFor(plan));
        }
        expect(served).toEqual(waiting);
      }),
    );
  });
});

test('only what can never fit is refused', () => {
  const cache = new PagedCache(4, 4);
  const code = (prompt: number, maxTokens: number, maxModelLen: number) =>
    refusal(requestOf({ prompt: new Array<number>(prompt).fill(1), maxTokens }), maxModelLen, cache)?.code;
  expect(code(9, 1, 10)).toBeUndefined();
  expect(code(10, 1, 10)).toBe('too_long');
  expect(code(10, 0, 10)).toBe('too_long');
  // The last token that is sampled needs no slot: 16 slots serve 10 + 7 tokens.
  expect(code(10, 7, 100)).toBeUndefined();
  expect(code(10, 8, 100)).toBe('too_long');
  expect(code(16, 0, 100)).toBeUndefined();
  expect(code(10, 2 ** 31 - 1, 17)).toBeUndefined();
});
