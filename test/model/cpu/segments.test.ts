/** Decodes of sequences that are long enough to be cut into segments, beside short ones, against prefills of the same tokens. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { copyModel } from '../../support/model-directory.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { tinyModels, tinyRunner, tokensOf } from '../../support/tiny-model.js';
import { widerModel } from '../../support/wider-model.js';

const BLOCK = 16;
/** Tokens of the sequences: several segments, just one and a bit, one of several blocks, less than a block, one token alone. */
const LENGTHS = [790, 330, 100, 12, 1];
/** Tokens that are decoded one by one. */
const DECODED = 3;
const BLOCKS_EACH = Math.ceil(Math.max(...LENGTHS) / BLOCK);

/** A segment is one such block. */
const LARGE_BLOCK = 161;

const directory = temporaryDirectory();

/** With the cache in full precision, and in 8 bits: with weights in 8 bits, for wider models and not for gemma3's norms. */
const MODELS = [
  ...tinyModels.map((name) => ({ name, model: name, precision: 'fp32' as const })),
  ...tinyModels
    .filter((name) => name !== 'tiny-gemma3')
    .map((name) => ({ name, model: widerModel(name, directory), precision: 'int8' as const })),
];

describe.each(MODELS)('$name in $precision', ({ model, precision }) => {
  const runner = tinyRunner(model, 16 * 2 ** 20, precision);

  /** One step: of each sequence the tokens from `from` to `to`; the logits of its last. */
  async function step(
    chunks: readonly { sequence: number; from: number; to: number }[],
    arePrompts = false,
  ): Promise<Float32Array[]> {
    const cumulative = [0];
    const tokens: number[] = [];
    for (const { sequence, from, to } of chunks) {
      tokens.push(...tokensOf(sequence, to).slice(from));
      cumulative.push(tokens.length);
    }
    const { values, vocabSize } = await runner().run({
      tokens: Int32Array.from(tokens),
      cumulativeLengths: Int32Array.from(cumulative),
      pastLengths: Int32Array.from(chunks, ({ from }) => from),
      blockTables: Int32Array.from(
        chunks.flatMap(({ sequence }) => Array.from({ length: BLOCKS_EACH }, (_, i) => sequence + i * LENGTHS.length)),
      ),
      maxBlocks: BLOCKS_EACH,
      logitRows: Int32Array.from(cumulative.slice(1), (end) => end - 1),
      ...(arePrompts && { generated: new Uint8Array(chunks.length) }),
    });
    return chunks.map((_, i) => values.slice(i * vocabSize, (i + 1) * vocabSize));
  }

  /** Logits of the last token of each sequence when its last tokens are decoded, in steps that some sequences share. */
  async function decode(sequences: readonly number[]): Promise<Float32Array[]> {
    for (const sequence of sequences) {
      const to = (LENGTHS[sequence] as number) - DECODED;
      if (to > 0) await step([{ sequence, from: 0, to }]);
    }
    let logits: Float32Array[] = [];
    for (let left = DECODED; left > 0; left--) {
      const due = sequences.filter((sequence) => (LENGTHS[sequence] as number) >= left);
      if (due.length === 0) continue;
      logits = await step(
        due.map((sequence) => {
          const to = (LENGTHS[sequence] as number) - left + 1;
          return { sequence, from: to - 1, to };
        }),
      );
    }
    return logits;
  }

  it('decodes to the logits of a prefill, and to the same bits alone and among others', async () => {
    const together = await decode(LENGTHS.map((_, sequence) => sequence));
    for (const [sequence, length] of LENGTHS.entries()) {
      const [prefilled] = await step([{ sequence, from: 0, to: length }]);
      const error = Math.max(...prefilled!.map((x, i) => Math.abs(x - together[sequence]![i]!)));
      if (precision === 'fp32') expect(error).toBeLessThan(1e-3);
      expect((await decode([sequence]))[0]).toEqual(together[sequence]);
    }
    // Short ones among themselves, of different lengths: nothing is merged then.
    const short = LENGTHS.flatMap((length, sequence) => (length <= 100 ? [sequence] : []));
    expect(await decode(short)).toEqual(short.map((sequence) => together[sequence]));
  });

  // Products of floats may round otherwise in steps of fewer rows; those of integers are exact.
  if (precision === 'int8') {
    it('computes a prompt to the same bits however it is cut, beside another or not', async () => {
      const sequence = 0;
      const length = 300;
      /** Logits of the last token, after the steps that end at these tokens. */
      const prefill = async (ends: readonly number[], beside: boolean): Promise<Float32Array> => {
        let from = 0;
        let logits: Float32Array[] = [];
        for (const to of [...ends, length]) {
          const other = beside ? [{ sequence: 3, from: 0, to: LENGTHS[3]! }] : [];
          logits = await step([...other, { sequence, from, to }], true);
          from = to;
        }
        return logits.at(-1)!;
      };
      const whole = await prefill([], false);
      // Tiles end at multiples of 128: rows alone beside them, at the beginning and at the end.
      for (const ends of [[1], [127], [128], [129], [255, 256], [256, 257], [299], [298], [31, 63, 200]]) {
        for (const beside of [false, true]) expect(await prefill(ends, beside), `${ends}, ${beside}`).toEqual(whole);
      }
    });
  }

  it('decodes to the same bits beside a prefill', async () => {
    const [alone] = await decode([2]);
    const to = LENGTHS[2]!;
    const [beside] = await step([
      { sequence: 2, from: to - 1, to },
      { sequence: 3, from: 0, to: LENGTHS[3]! },
    ]);
    expect(beside).toEqual(alone);
  });
});

describe('sums over many segments', () => {
  const config = { max_position_embeddings: 8 * LARGE_BLOCK };
  const model = copyModel('tiny-llama', join(directory, 'long'), { config });
  const runner = tinyRunner(model, 16 * 2 ** 20, 'fp32', { blockSize: LARGE_BLOCK });
  const lengths = Array.from({ length: 8 }, (_, i) => LARGE_BLOCK * (i + 1) - 20);

  it('have the same bits beside sequences of any number of segments', async () => {
    const run = async (sequences: readonly number[], past: (sequence: number) => number, count: number) => {
      const { values, vocabSize } = await runner().run({
        tokens: Int32Array.from(sequences.flatMap((s) => tokensOf(s, lengths[s]! + 1).slice(past(s), past(s) + count))),
        cumulativeLengths: Int32Array.from({ length: sequences.length + 1 }, (_, i) => i * count),
        pastLengths: Int32Array.from(sequences, past),
        blockTables: Int32Array.from(sequences.flatMap((s) => lengths.map((_, i) => s * lengths.length + i))),
        maxBlocks: lengths.length,
        logitRows: Int32Array.from(sequences, (_, i) => (i + 1) * count - 1),
      });
      return sequences.map((_, i) => values.slice(i * vocabSize, (i + 1) * vocabSize));
    };
    for (const [s, length] of lengths.entries()) await run([s], () => 0, length);
    const decode = (sequences: readonly number[]) => run(sequences, (s) => lengths[s]!, 1);
    const alone: Float32Array[] = [];
    for (const s of lengths.keys()) alone.push((await decode([s]))[0]!);
    for (const s of lengths.keys()) {
      for (const other of lengths.keys()) {
        if (other === s) continue;
        expect((await decode([s, other]))[0], `${s + 1} segments beside ${other + 1}`).toEqual(alone[s]);
      }
    }
  });
});
