/** Draws from summed-up rows against draws from the same rows as a whole. */
import { describe, expect, it } from 'vitest';
import { Adjustments } from '../../../src/engine/sampler/adjustments.js';
import { Sampler } from '../../../src/engine/sampler/sampler.js';
import { RowSummary } from '../../../src/engine/sampler/summary.js';
import { Sequence } from '../../../src/engine/sequence.js';
import type { RowSummaries } from '../../../src/model/runner.js';
import { requestOf } from '../../support/engine.js';

const VOCABULARY = 960;
const CHUNK = 32;

/** What a device would sum up, in f32. */
function summarize(row: Float32Array, temperature: number): RowSummaries {
  const chunks = row.length / CHUNK;
  const maximum = Math.max(...row);
  const weights = row.map((x) => Math.exp((x - maximum) / temperature));
  const total = weights.reduce((a, b) => a + b, 0);
  const of = (f: (c: number) => number) => Float32Array.from({ length: chunks }, (_, c) => f(c));
  return {
    chunkSize: CHUNK,
    chunks,
    maxima: of((c) => Math.max(...row.subarray(c * CHUNK, (c + 1) * CHUNK))),
    masses: of((c) => weights.subarray(c * CHUNK, (c + 1) * CHUNK).reduce((a, b) => a + b, 0) / total),
  };
}

function normalRow(seed: number, spread: number): Float32Array {
  let state = seed * 7919 + 1;
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
  return Float32Array.from(
    { length: VOCABULARY },
    () => spread * Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()),
  );
}

describe.each([
  ['no filter', {}],
  ['a high temperature', { temperature: 3 }],
  ['a low temperature', { temperature: 0.2 }],
  ['top-p', { topP: 0.9 }],
  ['a small top-p', { topP: 0.2 }],
  ['top-k', { topK: 7 }],
  ['top-k and top-p', { topK: 20, topP: 0.7 }],
  ['min-p', { minP: 0.05 }],
  ['min-p and top-k', { minP: 0.02, topK: 12 }],
])('with %s', (_, params) => {
  it('draws the same tokens as from whole rows, but for rounding at a border', () => {
    const sampler = new Sampler(VOCABULARY);
    const summary = new RowSummary();
    const temperature = 'temperature' in params ? params.temperature : 1;
    let different = 0;
    const trials = 400;
    for (let seed = 0; seed < trials; seed++) {
      const row = normalRow(seed, 1 + (seed % 5));
      const request = requestOf({ prompt: [1], sampling: { temperature, ...params, seed } });
      const sequence = new Sequence(request, 0, 0, 100);
      const adjustments = new Adjustments(sequence, VOCABULARY);
      const whole = sampler.draw(row, sequence, adjustments);
      const summed = sampler.draw(row, sequence, adjustments, summary.at(summarize(row, temperature), 0));
      if (whole !== summed) different++;
    }
    expect(different).toBeLessThan(2);
  });
});

it('looks at the whole row where it is not finite', () => {
  const sampler = new Sampler(VOCABULARY);
  const row = normalRow(1, 1);
  row[100] = Number.NaN;
  row[200] = Number.NEGATIVE_INFINITY;
  const summaries = summarize(row, 1);
  const sequence = new Sequence(requestOf({ prompt: [1], sampling: { temperature: 1, seed: 5 } }), 0, 0, 100);
  const adjustments = new Adjustments(sequence, VOCABULARY);
  const token = sampler.draw(row, sequence, adjustments, new RowSummary().at(summaries, 0));
  expect(token).toBe(sampler.draw(row, sequence, adjustments));
});
