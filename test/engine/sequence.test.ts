import { describe, expect, test } from 'vitest';
import { Sequence } from '../../src/engine/sequence.js';
import { requestOf } from '../support/engine.js';

const sequenceOf = (overrides: Parameters<typeof requestOf>[0], maxModelLen = 1000) =>
  new Sequence(requestOf(overrides), 0, 0, maxModelLen);

describe('Sequence', () => {
  test('ends by length at maxTokens, or where the context ends', () => {
    const short = sequenceOf({ prompt: [1, 2], maxTokens: 2 });
    expect([short.append(3), short.append(4)]).toEqual([undefined, 'length']);
    const clipped = sequenceOf({ prompt: [1, 2], maxTokens: 2 ** 31 - 1 }, 4);
    expect([clipped.append(3), clipped.append(4)]).toEqual([undefined, 'length']);
    expect(clipped.maxSlots).toBe(3);
  });

  test('ends by any of its end tokens, which wins over length (case 45, vllm#4589)', () => {
    const sequence = sequenceOf({ maxTokens: 3, endTokens: [7, 9] });
    expect([sequence.append(5), sequence.append(9)]).toEqual([undefined, 'stop']);
    expect(sequence.stopToken).toBe(9);
    const last = sequenceOf({ maxTokens: 1, endTokens: [7] });
    expect(last.append(7)).toBe('stop');
  });

  test('does not end by an end token that came before the minimum length', () => {
    const sequence = sequenceOf({ maxTokens: 3, minTokens: 2, endTokens: [7] });
    expect([sequence.append(7), sequence.append(7), sequence.append(7)]).toEqual([undefined, undefined, 'stop']);
  });

  test('keeps all its tokens while it grows', () => {
    const sequence = sequenceOf({ prompt: [1], maxTokens: 500 });
    for (let i = 0; i < 300; i++) sequence.append(i);
    expect([...sequence.tokens]).toEqual([1, ...Array.from({ length: 300 }, (_, i) => i)]);
    const copy = new Int32Array(5);
    sequence.copyTokens(99, 102, copy, 1);
    expect([...copy]).toEqual([0, 98, 99, 100, 0]);
  });

  test('without tokens to generate it only needs the slots of its prompt', () => {
    const sequence = sequenceOf({ prompt: [1, 2, 3], maxTokens: 0 });
    expect([sequence.wantsToken, sequence.maxSlots, sequence.pending]).toEqual([false, 3, 3]);
  });
});
