/** Rows of logits reduced in the graph against a search in the whole row. */
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { describe, expect, it } from 'vitest';
import { LOGIT_INPUTS, LOGIT_OUTPUTS, reduceLogits } from '../../../src/model/backends/cpu/logits.js';
import { GraphBuilder } from '../../../src/model/graph/builder.js';

async function reduce(rows: readonly (readonly number[])[], whole: readonly number[], temperature = 1) {
  const vocabSize = rows[0]!.length;
  const g = new GraphBuilder('logits');
  const input = g.input('input', 'float32', [1, 'S', vocabSize]);
  reduceLogits(g, input, vocabSize);
  const session = await InferenceSession.create(g.toBytes(), { logSeverityLevel: 3 });
  const outputs = await session.run({
    input: new Tensor('float32', Float32Array.from(rows.flat()), [1, rows.length, vocabSize]),
    [LOGIT_INPUTS.wholeRows]: new Tensor('int32', Int32Array.from(whole), [whole.length]),
    [LOGIT_INPUTS.inverseTemperatures]: new Tensor('float32', new Float32Array(whole.length).fill(1 / temperature), [
      whole.length,
      1,
    ]),
  });
  await session.release();
  return {
    tokens: [...(outputs[LOGIT_OUTPUTS.likeliest]!.data as BigInt64Array)].map(Number),
    logits: [...(outputs[LOGIT_OUTPUTS.likeliestLogits]!.data as Float32Array)],
    values: [...(outputs[LOGIT_OUTPUTS.values]!.data as Float32Array)],
    maxima: [...(outputs[LOGIT_OUTPUTS.maxima]!.data as Float32Array)],
    masses: [...(outputs[LOGIT_OUTPUTS.masses]!.data as Float32Array)],
  };
}

describe('reduced logits', () => {
  it.each([
    ['a product', 60],
    ['a square', 64],
    ['a prime', 61],
  ])('finds the likeliest token of a vocabulary whose size is %s', async (_, vocabSize) => {
    const rows = Array.from({ length: vocabSize }, (_, best) =>
      Array.from({ length: vocabSize }, (_, i) => (i === best ? 3 : -Math.abs(Math.sin(i + best)))),
    );
    const { tokens, logits } = await reduce(rows, [0]);
    expect(tokens).toEqual(rows.map((_, best) => best));
    expect(logits).toEqual(rows.map(() => 3));
  });

  it('takes the lowest index among equals, within a chunk and across chunks', async () => {
    const row = new Array<number>(64).fill(-1);
    const { tokens } = await reduce([row, row.with(9, 2).with(10, 2).with(50, 2)], [0]);
    expect(tokens).toEqual([0, 9]);
  });

  it('says so when a row holds anything that is not finite', async () => {
    const row = new Array<number>(64).fill(0.5);
    const bad = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    const { logits } = await reduce([row, ...bad.map((x) => row.with(20, x))], [0]);
    expect(logits.map(Number.isFinite)).toEqual([true, false, false, false]);
  });

  it('gives the whole rows that are asked for', async () => {
    const rows = [1, 2, 3].map((x) => new Array<number>(16).fill(x));
    expect((await reduce(rows, [0, 2])).values).toEqual([...rows[0]!, ...rows[2]!]);
  });

  it('sums whole rows up in chunks, at their temperature', async () => {
    const row = Array.from({ length: 64 }, (_, i) => 3 * Math.sin(i));
    const { maxima, masses } = await reduce([row, row.map((x) => x + 1)], [1], 0.5);
    const weights = row.map((x) => Math.exp(x / 0.5));
    const total = weights.reduce((a, b) => a + b);
    for (let c = 0; c < 8; c++) {
      expect(maxima[c]).toBeCloseTo(Math.max(...row.slice(c * 8, c * 8 + 8)) + 1, 5);
      expect(masses[c]).toBeCloseTo(weights.slice(c * 8, c * 8 + 8).reduce((a, b) => a + b) / total, 5);
    }
  });
});
