/** Who is served first: priorities, users, and prompts of all lengths beside each other. */
import { describe, expect, test } from 'vitest';
import type { Sequence } from '../../../src/engine/sequence.js';
import { usedHeap } from '../../support/heap.js';
import { setUpScheduling as setUp } from '../../support/scheduling.js';

/** Steps until a sequence has its first token. */
function untilFirstToken(sequence: Sequence, step: () => unknown, most = 1000): number {
  let steps = 0;
  while (sequence.generated === 0 && steps < most) {
    step();
    steps++;
  }
  return steps;
}

describe('users', () => {
  test.each([true, false])(
    'one with 200 requests delays one with a single request by a step at most (fair share %s)',
    (fairShare) => {
      const setup = { maxNumSeqs: 16, maxNumBatchedTokens: 256, numBlocks: 1000, blockSize: 16, fairShare };
      const idle = setUp(setup);
      const alone = untilFirstToken(idle.add(100, 10, { user: 'single' }), idle.step);

      const busy = setUp(setup);
      const flood = Array.from({ length: 200 }, () => busy.add(100, 100, { user: 'flood' }));
      for (let i = 0; i < 20; i++) busy.step();
      expect(busy.scheduler.running).toBe(16);
      const delayed = untilFirstToken(busy.add(100, 10, { user: 'single' }), busy.step);
      if (fairShare) expect(delayed).toBeLessThanOrEqual(2 * alone);
      else expect(delayed).toBeGreaterThan(100);
      // Whoever gave way has lost its place to nobody else of its user.
      const preempted = flood.filter(({ preemptions }) => preemptions > 0);
      expect(preempted.length).toBe(fairShare ? 1 : 0);
      for (let i = 0; i < 60; i++) busy.step();
      expect(preempted.every(({ state }) => state === 'running')).toBe(true);
    },
  );

  test('get equal shares of tokens, whatever the length of their requests', () => {
    const { add, step } = setUp({ maxNumSeqs: 8, maxNumBatchedTokens: 128, numBlocks: 2000 });
    const lengths = { short: [10, 10], long: [200, 50], chatty: [4, 120] } as const;
    const sequences = Object.entries(lengths).flatMap(([user, [prompt, output]]) =>
      Array.from({ length: 400 }, () => add(prompt, output, { user })),
    );
    for (let i = 0; i < 1500; i++) step();
    const served = Object.keys(lengths).map((user) =>
      sequences
        .filter(({ request }) => request.user === user)
        .reduce((sum, { computed, finish, length }) => sum + (finish === undefined ? computed : length), 0),
    );
    // Apart by what runs at the same time, at most.
    expect(Math.max(...served) - Math.min(...served)).toBeLessThanOrEqual(8 * 250);
    expect(Math.min(...served)).toBeGreaterThan(3000);
  });

  test('who come back have not saved up for it', () => {
    const { add, step } = setUp({ maxNumSeqs: 2, maxNumBatchedTokens: 64, numBlocks: 2000 });
    const rare = add(4, 4, { user: 'rare' });
    const steady = Array.from({ length: 400 }, () => add(4, 20, { user: 'steady' }));
    for (let i = 0; i < 400; i++) step();
    expect(rare.state).toBe('finished');
    const done = () => steady.filter(({ state }) => state === 'finished').length;
    const before = done();
    const back = Array.from({ length: 100 }, () => add(4, 20, { user: 'rare' }));
    for (let i = 0; i < 400; i++) step();
    const shares = [done() - before, back.filter(({ state }) => state === 'finished').length];
    expect(Math.abs(shares[0]! - shares[1]!)).toBeLessThanOrEqual(2);
    expect(shares[0]).toBeGreaterThan(15);
  });

  test('are served first come first served among their own, and by arrival where they are even', () => {
    const { add, step } = setUp({ maxNumSeqs: 1, maxNumBatchedTokens: 64 });
    const order: Sequence[] = [];
    const sequences = [
      add(4, 1, { user: 'a' }),
      add(4, 1, { user: 'a' }),
      add(4, 1, { user: 'b' }),
      add(4, 1, { user: 'a' }),
      add(4, 1, { user: 'b' }),
    ];
    for (let i = 0; i < 5; i++) order.push(...step().map(({ sequence }) => sequence));
    expect(order.map((sequence) => sequences.indexOf(sequence))).toEqual([0, 2, 1, 4, 3]);
  });

  test('of a lower priority wait for all of a higher one', () => {
    const { add, step } = setUp({ maxNumSeqs: 2, maxNumBatchedTokens: 64 });
    const low = add(4, 2, { user: 'b', priority: 1 });
    const high = Array.from({ length: 6 }, () => add(4, 2, { user: 'a' }));
    while (high.some(({ state }) => state !== 'finished')) {
      expect(low.generated).toBe(0);
      step();
    }
    expect(untilFirstToken(low, step)).toBe(1);
  });

  test('with one running do not get another by preemption, and nobody loses the last one', () => {
    const { add, step, scheduler } = setUp({ maxNumSeqs: 3, maxNumBatchedTokens: 64, numBlocks: 1000 });
    const flood = Array.from({ length: 3 }, () => add(4, 500, { user: 'flood' }));
    step();
    const others = ['x', 'x', 'y', 'z'].map((user) => add(4, 500, { user }));
    for (let i = 0; i < 10; i++) step();
    expect(flood.map(({ state }) => state)).toEqual(['running', 'waiting', 'waiting']);
    expect(others.map(({ state }) => state)).toEqual(['running', 'waiting', 'running', 'waiting']);
    expect(scheduler.preemptions).toBe(2);
  });

  test('who hold most give way first when blocks run out', () => {
    const { add, step } = setUp({ maxNumSeqs: 8, maxNumBatchedTokens: 64, numBlocks: 20 });
    const flood = Array.from({ length: 4 }, () => add(4, 30, { user: 'flood' }));
    step();
    const single = add(4, 30, { user: 'single' });
    while (single.state !== 'finished') step();
    expect(single.preemptions).toBe(0);
    expect(flood[3]!.preemptions).toBeGreaterThan(0);
    expect(flood[0]!.preemptions).toBe(0);
  });

  test('cannot take the pool from others with one huge prompt', () => {
    const { add, step } = setUp({ maxNumSeqs: 8, maxNumBatchedTokens: 64, numBlocks: 40 });
    const flood = Array.from({ length: 6 }, () => add(16, 30, { user: 'flood' }));
    for (let i = 0; i < 3; i++) step();
    const huge = add(120, 4, { user: 'huge' });
    for (let i = 0; i < 5; i++) step();
    expect(flood.map(({ preemptions }) => preemptions)).toEqual([0, 0, 0, 0, 0, 0]);
    // It waits for its turn, and gets it.
    for (let i = 0; i < 200; i++) step();
    expect(huge.finish).toBe('length');
  });

  test('leave nothing behind, however many there have been', () => {
    const { add, step, scheduler } = setUp({ maxNumSeqs: 8, maxNumBatchedTokens: 64 });
    const before = usedHeap();
    for (let i = 0; i < 50_000; i++) {
      add(1, 1, { user: `user ${i}` });
      if (i % 8 === 7) step();
    }
    while (scheduler.hasWork) step();
    expect(usedHeap() - before).toBeLessThan(8 * 2 ** 20);
  });
});

describe('prompts', () => {
  const setup = { maxNumSeqs: 64, maxNumBatchedTokens: 512, numBlocks: 3000, blockSize: 16 };

  test('that are short do not wait for a long one under way; it ends within twice its time', () => {
    const { add, step } = setUp(setup);
    const long = add(8192, 1);
    step();
    const delays: number[] = [];
    let steps = 1;
    const open: { sequence: Sequence; since: number }[] = [];
    while (long.generated === 0) {
      for (let i = 0; i < 4; i++) open.push({ sequence: add(60, 1), since: steps });
      step();
      steps++;
      for (const { sequence, since } of open.splice(0)) {
        if (sequence.generated > 0) delays.push(steps - since);
        else open.push({ sequence, since });
      }
    }
    // 256 tokens a step are left beside the long one, and four short prompts take 240.
    expect(Math.max(...delays)).toBe(1);
    expect(open).toHaveLength(0);
    expect(steps).toBeLessThanOrEqual(1 + (2 * 8192) / 512);
  });

  test('more short ones than there is room for delay the long one no further', () => {
    const { add, step } = setUp(setup);
    const long = add(8192, 1);
    let steps = 0;
    while (long.generated === 0) {
      for (let i = 0; i < 20; i++) add(60, 1);
      step();
      steps++;
    }
    expect(steps).toBeLessThanOrEqual(1 + (2 * 8192) / 512);
  });

  test('that are longer than the rest of one under way wait for it; shorter ones pass', () => {
    const { add, step } = setUp(setup);
    const first = add(4096, 1);
    step();
    const second = add(4096, 1);
    const middle = add(700, 1);
    // It starts with the half of a step that the first leaves, and goes on with half of that, since the second waits.
    expect(untilFirstToken(middle, step)).toBe(1 + Math.ceil((700 - 256) / 128));
    expect([first.generated, second.computed]).toEqual([0, 0]);
    while (first.generated === 0) step();
    expect(second.computed).toBeLessThan(512);
    const rest = untilFirstToken(second, step);
    expect(rest).toBeLessThanOrEqual(4096 / 512);
  });

  test('one at a time keeps middle ones waiting too', () => {
    const { add, step } = setUp({ ...setup, maxNumPartialPrefills: 1 });
    const first = add(4096, 1);
    step();
    const middle = add(700, 1);
    const short = add(100, 1);
    expect(untilFirstToken(short, step)).toBe(1);
    while (first.generated === 0) {
      expect(middle.computed).toBe(0);
      step();
    }
    expect(untilFirstToken(middle, step)).toBeLessThanOrEqual(2);
  });

  test('take the whole budget when nobody else wants it', () => {
    const { add, step } = setUp(setup);
    const long = add(8192, 1);
    expect(untilFirstToken(long, step)).toBe(8192 / 512);
  });

  test('that need many blocks are passed by small ones, but not for ever (case 70, vllm#31731)', () => {
    const { add, step } = setUp({ maxNumSeqs: 4, maxNumBatchedTokens: 64, numBlocks: 60, blockSize: 4 });
    const running = Array.from({ length: 2 }, () => add(60, 40));
    for (let i = 0; i < 3; i++) step();
    const big = add(120, 4);
    const small: Sequence[] = [];
    let steps = 0;
    while (big.generated === 0) {
      small.push(add(4, 4));
      step();
      steps++;
      expect(steps).toBeLessThan(200);
    }
    // As many as may run passed it while the first two ran; then it was its turn, as soon as those had ended.
    expect(big.passed).toBe(4);
    expect(small.filter(({ firstScheduled }) => firstScheduled! < big.firstScheduled!).length).toBe(4);
    expect(running.map(({ finish, preemptions }) => [finish, preemptions])).toEqual([
      ['length', 0],
      ['length', 0],
    ]);
    for (let i = 0; i < 200; i++) step();
    expect(small.every(({ finish }) => finish === 'length')).toBe(true);
  });
});
