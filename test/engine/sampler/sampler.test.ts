import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { SamplingParams } from '../../../src/engine/protocol.js';
import { Adjustments } from '../../../src/engine/sampler/adjustments.js';
import { uniform } from '../../../src/engine/sampler/philox.js';
import { Sampler } from '../../../src/engine/sampler/sampler.js';
import { Sequence } from '../../../src/engine/sequence.js';
import { GREEDY, requestOf } from '../../support/engine.js';

type Overrides = Parameters<typeof requestOf>[0];

const RANDOM: SamplingParams = { ...GREEDY, temperature: 1 };

/** A sequence whose generated tokens are given. */
function sequenceOf(overrides: Overrides, generated: readonly number[] = [], choice = 0): Sequence {
  const sequence = new Sequence(requestOf({ maxTokens: 1000, ...overrides }), choice, 0, 4096);
  for (const token of generated) sequence.append(token);
  return sequence;
}

function draw(logits: ArrayLike<number>, overrides: Overrides = {}, generated: readonly number[] = []) {
  const row = Float32Array.from(logits);
  const before = row.slice();
  const sequence = sequenceOf(overrides, generated);
  const token = new Sampler(row.length).draw(row, sequence, new Adjustments(sequence, row.length));
  expect(row).toEqual(before);
  return token;
}

/** The tokens that filters leave and their shares, by sorting everything; what `Sampler` does without sorting. */
function reference(logits: Float32Array, { temperature, topK, topP, minP, allowedTokenIds }: SamplingParams) {
  const ids = allowedTokenIds.length > 0 ? [...new Set(allowedTokenIds)] : [...logits.keys()];
  const possible = ids.filter((id) => Number.isFinite(logits[id]));
  const maximum = Math.max(...possible.map((id) => logits[id]!));
  let kept = possible
    .sort((a, b) => logits[b]! - logits[a]! || a - b)
    .map((id) => ({ id, weight: Math.exp((logits[id]! - maximum) / temperature) }))
    .filter(({ weight }) => weight >= minP);
  if (topK > 0) kept = kept.slice(0, topK);
  if (topP < 1) {
    kept.sort((a, b) => b.weight - a.weight || a.id - b.id);
    const target = topP * kept.reduce((sum, { weight }) => sum + weight, 0);
    let sum = 0;
    const last = kept.findIndex(({ weight }) => {
      sum += weight;
      return sum >= target;
    });
    if (last >= 0) kept = kept.slice(0, last + 1);
  }
  return kept.sort((a, b) => a.id - b.id);
}

describe('greedy', () => {
  test('takes the likeliest, of equals the lowest id', () => {
    expect(draw([0, 3, 1, 3, 2])).toBe(1);
    expect(draw([-5, -5, -5])).toBe(0);
  });

  test('a temperature that division would overflow is greedy', () => {
    expect(draw([0, 1, 2], { sampling: { ...RANDOM, temperature: 1e-30 } })).toBe(2);
  });

  test('NaN and infinities are impossible', () => {
    expect(draw([Number.NaN, Number.POSITIVE_INFINITY, 1, Number.NEGATIVE_INFINITY, 2])).toBe(4);
    expect(draw([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])).toBeUndefined();
  });
});

describe('filters', () => {
  // Equal or clearly apart: what differs by less than rounding has no order to agree on.
  const logit = fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: -12_000, max: 12_000 }).map((value) => value / 1024) },
    { weight: 3, arbitrary: fc.integer({ min: -3, max: 3 }) },
    { weight: 1, arbitrary: fc.constantFrom(Number.NaN, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY, -200) },
  );
  const sampling = fc.record({
    temperature: fc.constantFrom(0.2, 0.7, 1, 1.3, 5),
    topK: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 60 })),
    topP: fc.oneof(fc.constant(1), fc.double({ min: 0.01, max: 0.999, noNaN: true }), fc.constantFrom(0.5, 0.9)),
    minP: fc.oneof(fc.constant(0), fc.double({ min: 0.001, max: 1, noNaN: true })),
    seed: fc.maxSafeInteger(),
    allowedTokenIds: fc.oneof(fc.constant([]), fc.array(fc.nat(49), { minLength: 1, maxLength: 30 })),
  });

  test('draw what a sorted softmax gives for the same random number', () => {
    const sampler = new Sampler(50);
    fc.assert(
      fc.property(fc.array(logit, { minLength: 50, maxLength: 50 }), sampling, (values, params) => {
        const logits = Float32Array.from(values);
        const full = { ...GREEDY, ...params };
        const kept = reference(logits, full);
        fc.pre(kept.length > 0);
        const sequence = sequenceOf({ sampling: full });
        const adjustments = new Adjustments(sequence, 50);
        for (let position = 0; position < 8; position++) {
          const total = kept.reduce((sum, { weight }) => sum + weight, 0);
          let left = uniform(params.seed, 0, sequence.length) * total;
          const expected = kept.find(({ weight }) => {
            left -= weight;
            return left < 0;
          });
          const token = sampler.draw(logits, sequence, adjustments)!;
          expect(token).toBe((expected ?? kept.at(-1)!).id);
          sequence.append(token);
        }
      }),
      { numRuns: 3000 },
    );
  });

  test('hold for a whole vocabulary, with many equals', () => {
    const size = 49_152;
    const sampler = new Sampler(size);
    const settings: Partial<SamplingParams>[] = [
      {},
      { topK: 1 },
      { topK: 50 },
      { topK: 2000, topP: 0.9 },
      { topP: 0.95 },
      { topP: 0.5, temperature: 3 },
      { minP: 0.05 },
      { minP: 0.001, topK: 700, topP: 0.8 },
    ];
    for (const [index, setting] of settings.entries()) {
      const params = { ...RANDOM, ...setting, seed: index };
      // Halves make many ties, also at every border.
      const logits = Float32Array.from({ length: size }, (_, i) => Math.round(40 * uniform(index, 1, i)) / 2 - 5);
      const kept = reference(logits, params);
      const sequence = sequenceOf({ sampling: params });
      const adjustments = new Adjustments(sequence, size);
      for (let i = 0; i < 20; i++) {
        let left = uniform(index, 0, sequence.length) * kept.reduce((sum, { weight }) => sum + weight, 0);
        const expected = kept.find(({ weight }) => {
          left -= weight;
          return left < 0;
        });
        const token = sampler.draw(logits, sequence, adjustments)!;
        expect([index, token]).toEqual([index, expected!.id]);
        sequence.append(token);
      }
    }
  });

  test('a nucleus of nothing still holds the likeliest token', () => {
    expect(draw([1, 2, 3, 3], { sampling: { ...RANDOM, topP: 1e-12 } })).toBe(2);
  });
});

describe('distribution', () => {
  test.each<[string, Partial<SamplingParams>]>([
    ['the whole vocabulary', {}],
    ['temperature 2', { temperature: 2 }],
    ['top-k 5', { topK: 5 }],
    ['top-p 0.8', { topP: 0.8 }],
    ['min-p 0.1', { minP: 0.1 }],
  ])('%s: draws follow the softmax (chi-square)', (_, setting) => {
    const params = { ...RANDOM, ...setting, seed: 11 };
    const logits = Float32Array.from({ length: 16 }, (_, i) => Math.sin(i * 1.7) * 2);
    const kept = reference(logits, params);
    const total = kept.reduce((sum, { weight }) => sum + weight, 0);
    const counts = new Map<number, number>();
    const sampler = new Sampler(16);
    const draws = 20_000;
    const sequence = sequenceOf({ sampling: params, maxTokens: draws }, []);
    const long = new Sequence(sequence.request, 0, 0, draws + 10);
    const adjustments = new Adjustments(long, 16);
    for (let i = 0; i < draws; i++) {
      const token = sampler.draw(logits, long, adjustments)!;
      counts.set(token, (counts.get(token) ?? 0) + 1);
      long.append(token);
    }
    let chiSquare = 0;
    for (const { id, weight } of kept) {
      const expected = (draws * weight) / total;
      chiSquare += ((counts.get(id) ?? 0) - expected) ** 2 / expected;
      counts.delete(id);
    }
    expect(counts.size).toBe(0);
    // At most 15 degrees of freedom: 1 in 10,000 exceeds 45.
    expect(chiSquare).toBeLessThan(45);
  });

  test('choices of one request and requests of other seeds draw independently', () => {
    const logits = new Float32Array(64);
    const sampler = new Sampler(64);
    const runs = [
      [1, 0],
      [1, 1],
      [2, 0],
    ].map(([seed, choice]) => {
      const sequence = sequenceOf({ sampling: { ...RANDOM, seed: seed! } }, [], choice!);
      const adjustments = new Adjustments(sequence, 64);
      for (let i = 0; i < 200; i++) sequence.append(sampler.draw(logits, sequence, adjustments)!);
      return [...sequence.tokens].slice(3);
    });
    for (const [a, b] of [
      [0, 1],
      [0, 2],
      [1, 2],
    ]) {
      const equal = runs[a!]!.filter((token, i) => token === runs[b!]![i]).length;
      expect(equal).toBeLessThan(15);
    }
  });
});

describe('adjustments', () => {
  test('presence and frequency count generated tokens only (case 44, vmlx-swift#295)', () => {
    const logits = [1, 1.5, 0];
    const prompt = [1, 1, 1];
    expect(draw(logits, { prompt, sampling: { presencePenalty: 2, frequencyPenalty: 2 } })).toBe(1);
    expect(draw(logits, { prompt, sampling: { presencePenalty: 1 } }, [1])).toBe(0);
    expect(draw(logits, { prompt, sampling: { frequencyPenalty: 0.3 } }, [1])).toBe(1);
    expect(draw(logits, { prompt, sampling: { frequencyPenalty: 0.3 } }, [1, 1])).toBe(0);
  });

  test('repetition counts the prompt too, and lowers negative logits (case 44, TensorRT-LLM#5623)', () => {
    expect(draw([1, 1.5, 0], { prompt: [1], sampling: { repetitionPenalty: 5 } })).toBe(0);
    expect(draw([-2, -1.5, -3], { prompt: [1], sampling: { repetitionPenalty: 1.5 } })).toBe(0);
    expect(draw([1, 1.5, 0], { prompt: [2], sampling: { repetitionPenalty: 5 } }, [1])).toBe(0);
  });

  test('together, each counts what it counts alone', () => {
    const sampling = { repetitionPenalty: 1.01, presencePenalty: 2, frequencyPenalty: 2 };
    expect(draw([1, 1.5, 0], { prompt: [1, 1], sampling })).toBe(1);
    expect(draw([1, 1.5, 0], { prompt: [1, 1], sampling }, [1])).toBe(0);
  });

  test('penalties follow a sequence as it grows', () => {
    const sequence = sequenceOf({ prompt: [0], sampling: { frequencyPenalty: 0.4 } });
    const adjustments = new Adjustments(sequence, 3);
    const sampler = new Sampler(3);
    const logits = Float32Array.from([2, 1.5, 0]);
    for (let i = 0; i < 6; i++) sequence.append(sampler.draw(logits, sequence, adjustments)!);
    expect([...sequence.tokens].slice(1)).toEqual([0, 0, 1, 0, 1, 0]);
  });

  test('bias is added; ids outside the vocabulary are ignored', () => {
    expect(
      draw([0, 1, 2], {
        sampling: {
          logitBias: [
            [0, 3],
            [99, 100],
            [-1, 100],
          ],
        },
      }),
    ).toBe(0);
    expect(draw([0, 1, 2], { sampling: { logitBias: [[2, -100]] } })).toBe(1);
  });

  test('only allowed tokens are drawn, each at its own weight', () => {
    expect(draw([0, 1, 2, 3], { sampling: { allowedTokenIds: [1, 0] } })).toBe(1);
    const seeds = Array.from({ length: 50 }, (_, seed) =>
      draw([0, 0, 9, 0], { sampling: { ...RANDOM, seed, allowedTokenIds: [3, 1, 1, 3, 77] } }),
    );
    expect(new Set(seeds)).toEqual(new Set([1, 3]));
  });

  test('the last token of a bad word is impossible right after the others', () => {
    const badWords = [[5], [1, 2], [7, 8, 4], []];
    expect(draw([0, 0, 0, 1, 2, 9], { prompt: [1], sampling: { badWords } })).toBe(4);
    expect(draw([0, 0, 9, 1, 2, 8], { prompt: [3, 1], sampling: { badWords } })).toBe(4);
    expect(draw([0, 0, 9, 1, 2, 8], { prompt: [1, 3], sampling: { badWords } })).toBe(2);
    expect(draw([0, 0, 0, 1, 9, 8], { prompt: [1, 7], sampling: { badWords } }, [8])).toBe(3);
    expect(draw([0, 0, 0, 1, 9, 8], { prompt: [8], sampling: { badWords } })).toBe(4);
  });

  test('every end token is impossible before the minimum length (case 45, vllm#5849)', () => {
    const request = { endTokens: [2, 3], minTokens: 2 };
    expect(draw([0, 1, 9, 8], request)).toBe(1);
    expect(draw([0, 1, 9, 8], request, [1])).toBe(1);
    expect(draw([0, 1, 9, 8], request, [1, 1])).toBe(2);
  });

  test('when they leave nothing, the likeliest allowed token is taken, then the likeliest', () => {
    expect(draw([0, 1, 9, 8], { endTokens: [3], minTokens: 2, sampling: { allowedTokenIds: [3] } })).toBe(3);
    expect(draw([0, 1, 9, Number.NaN], { sampling: { allowedTokenIds: [3] } })).toBe(2);
    expect(draw([0, 1, 9, 8], { sampling: { allowedTokenIds: [40] } })).toBe(2);
  });
});
