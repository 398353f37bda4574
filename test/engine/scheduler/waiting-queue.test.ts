import fc from 'fast-check';
import { expect, test } from 'vitest';
import { WaitingQueue } from '../../../src/engine/scheduler/waiting-queue.js';
import { compareSequences, Sequence } from '../../../src/engine/sequence.js';
import { requestOf } from '../../support/engine.js';

const place = fc.record({ priority: fc.nat(1), user: fc.constantFrom('a', 'b', 'c'), arrival: fc.nat(9) });
const operation = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('push' as const), place }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('remove' as const), which: fc.nat(50) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('serve' as const), tokens: fc.nat(20) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('charge' as const), which: fc.nat(50), tokens: fc.nat(9) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('end' as const), which: fc.nat(50) }) },
);

test.each([true, false])(
  'next is who was served least, then who came first, under any history (fair share %s)',
  (fairShare) => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 80, size: 'max' }), (operations) => {
        const queue = new WaitingQueue(fairShare);
        const waiting: Sequence[] = [];
        const running: Sequence[] = [];
        let order = 0;
        const least = (sequences: readonly Sequence[]) =>
          sequences.toSorted(
            (a, b) =>
              a.request.priority - b.request.priority ||
              a.account!.served - b.account!.served ||
              // Of users that are even, the one whose first sequence comes first.
              (a.account === b.account ? 0 : compareSequences(first(a), first(b))) ||
              compareSequences(a, b),
          )[0];
        const first = ({ account }: Sequence) =>
          waiting.filter((other) => other.account === account).toSorted(compareSequences)[0]!;
        for (const step of operations) {
          if (step.kind === 'push') {
            const sequence = new Sequence(requestOf(step.place), 0, order++, 100);
            queue.enter(sequence);
            queue.push(sequence);
            waiting.push(sequence);
          } else if (step.kind === 'remove' && waiting.length > 0) {
            const [sequence] = waiting.splice(step.which % waiting.length, 1);
            queue.remove(sequence!);
            queue.leave(sequence!);
          } else if (step.kind === 'serve') {
            const sequence = queue.peek();
            if (sequence === undefined) continue;
            queue.remove(sequence);
            queue.serve(sequence, step.tokens);
            waiting.splice(waiting.indexOf(sequence), 1);
            running.push(sequence);
          } else if (step.kind === 'charge' && running.length > 0) {
            queue.charge(running[step.which % running.length]!, step.tokens);
            queue.settle();
          } else if (step.kind === 'end' && running.length > 0) {
            queue.leave(running.splice(step.which % running.length, 1)[0]!);
          }
          expect(queue.peek()).toBe(least(waiting));
          expect(queue.size).toBe(waiting.length);
          expect(queue.tokens).toBe(waiting.reduce((sum, { promptLength }) => sum + promptLength, 0));
          expect(new Set(queue)).toEqual(new Set(waiting));
        }
      }),
      { numRuns: 300, seed: 4 },
    );
  },
);

test('charges count only once settled, so that the order holds while a step is accounted for', () => {
  const queue = new WaitingQueue(true);
  const [a, b] = ['a', 'b'].map((user, order) => new Sequence(requestOf({ user }), 0, order, 100)) as [
    Sequence,
    Sequence,
  ];
  for (const sequence of [a, b]) {
    queue.enter(sequence);
    queue.push(sequence);
  }
  queue.charge(a, 5);
  expect(queue.peek()).toBe(a);
  queue.settle();
  expect([queue.peek(), a.account!.served]).toEqual([b, 5]);
});

test('a full queue gives up the last of the longest line, of the lowest priority', () => {
  const queue = new WaitingQueue(true);
  const wait = (user: string, priority = 0, ran = false) => {
    const sequence = new Sequence(requestOf({ user, priority, arrival: queue.size }), 0, queue.size, 100);
    if (ran) sequence.firstScheduled = 1;
    queue.enter(sequence);
    queue.push(sequence);
    return sequence;
  };
  wait('a');
  const second = wait('a');
  const third = wait('a');
  wait('b');
  expect(queue.surplus(requestOf({ user: 'c' }))).toBe(third);
  expect(queue.surplus(requestOf({ user: 'b' }))).toBe(third);
  // A newcomer of the user who has most would be the last itself, and so would one of a lower priority.
  expect(queue.surplus(requestOf({ user: 'a' }))).toBeUndefined();
  expect(queue.surplus(requestOf({ user: 'c', priority: 1 }))).toBeUndefined();
  expect(queue.surplus(requestOf({ user: 'a', priority: -1 }))).toBe(third);
  // What ran before is not given up.
  third.firstScheduled = 2;
  expect(queue.surplus(requestOf({ user: 'c' }))).toBe(second);
  const low = wait('z', 5);
  expect(queue.surplus(requestOf({ user: 'c' }))).toBe(low);
});
