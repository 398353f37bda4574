import { describe, expect, test } from 'vitest';
import { batchPolicies } from '../../../src/engine/scheduler/batching.js';
import type { Sequence } from '../../../src/engine/sequence.js';
import { setUpScheduling as setUp } from '../../support/scheduling.js';

describe('a policy', () => {
  test('says how many form the next batch, from what waits alone', () => {
    const { continuous, dynamic, none } = batchPolicies;
    expect(continuous({ count: 1, overdue: false }, 8)).toBe(Number.POSITIVE_INFINITY);
    expect(none({ count: 5, overdue: true }, 8)).toBe(1);
    expect(dynamic({ count: 3, overdue: false }, 8)).toBe(0);
    expect(dynamic({ count: 3, overdue: true }, 8)).toBe(3);
    expect(dynamic({ count: 8, overdue: false }, 8)).toBe(8);
    expect(dynamic({ count: 20, overdue: true }, 8)).toBe(8);
    expect(batchPolicies.static({ count: 7, overdue: false }, 8)).toBe(0);
  });
});

/** Which of some sequences run in each of so many steps, as a string of their numbers. */
function trace(sequences: readonly Sequence[], step: () => { sequence: Sequence }[], steps: number): string[] {
  return Array.from({ length: steps }, () =>
    step()
      .map(({ sequence }) => sequences.indexOf(sequence))
      .join(''),
  );
}

describe('batching', () => {
  test('none runs one request at a time, with all its choices', () => {
    const { add, step } = setUp({ batching: 'none' });
    const sequences = [add(2, 2), add(2, 3), add(2, 1)];
    expect(trace(sequences, step, 7)).toEqual(['0', '0', '1', '1', '1', '2', '']);
  });

  test('continuous lets requests join and leave at every step', () => {
    const { add, step } = setUp({ batching: 'continuous' });
    const sequences = [add(2, 4), add(2, 1)];
    expect(trace(sequences, step, 1)).toEqual(['01']);
    sequences.push(add(2, 2));
    expect(trace(sequences, step, 4)).toEqual(['02', '02', '0', '']);
  });

  test('dynamic runs what came within the window to its end before it takes the next batch', () => {
    const { add, step, scheduler } = setUp({ batching: 'dynamic', batchWindow: 0.005 });
    const sequences = [add(2, 3, { arrival: 1 }), add(2, 1, { arrival: 1.003 })];
    expect(step(1.004)).toEqual([]);
    expect(scheduler.idleUntil).toBeCloseTo(1.005, 9);
    expect(step(1.005)).toHaveLength(2);
    expect(scheduler.idleUntil).toBeUndefined();
    sequences.push(add(2, 1, { arrival: 1.006 }));
    const late = () => step(1.02);
    expect(trace(sequences, late, 4)).toEqual(['0', '0', '2', '']);
  });

  test('static waits for a full batch, but not without end', () => {
    const { add, step, scheduler } = setUp({ batching: 'static', maxNumSeqs: 3, batchWindow: 10 });
    const sequences = [add(2, 1, { arrival: 0 }), add(2, 2, { arrival: 0 })];
    expect(step(9)).toEqual([]);
    expect(scheduler.idleUntil).toBe(10);
    sequences.push(add(2, 1, { arrival: 9 }), add(2, 1, { arrival: 9 }));
    expect(trace(sequences, () => step(9), 3)).toEqual(['012', '1', '']);
    expect(scheduler.idleUntil).toBe(19);
    expect(trace(sequences, () => step(19), 2)).toEqual(['3', '']);
    expect(scheduler.idleUntil).toBeUndefined();
  });

  test('takes a batch in over as many steps as its prompts need, and closes behind it', () => {
    const { add, step } = setUp({ batching: 'static', maxNumSeqs: 4, maxNumBatchedTokens: 16, numBlocks: 200 });
    const sequences = Array.from({ length: 6 }, () => add(12, 3, { arrival: 0 }));
    const started: number[] = [];
    while (sequences.slice(0, 4).some(({ state }) => state !== 'finished')) {
      step(0);
      started.push(sequences.filter(({ firstScheduled }) => firstScheduled !== undefined).length);
    }
    expect(started[0]).toBeLessThan(4);
    expect(Math.max(...started)).toBe(4);
  });

  test('a sequence of the batch that is preempted goes on with it', () => {
    const { add, step } = setUp({ batching: 'dynamic', batchWindow: 0, numBlocks: 6, maxNumSeqs: 2 });
    const [first, second] = [add(4, 16, { arrival: 0 }), add(4, 16, { arrival: 0 })];
    step(1);
    const later = add(4, 2, { arrival: 1 });
    while (first.state !== 'finished' || second.state !== 'finished') {
      step(2);
      expect(later.firstScheduled).toBeUndefined();
    }
    expect(second.preemptions).toBe(1);
    step(3);
    expect(later.firstScheduled).toBe(3);
  });
});
