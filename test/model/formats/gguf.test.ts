/** GGUF files give the parameters and architecture of the safetensors they were made from. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../../src/model/formats/checkpoint.js';
import { dequantize } from '../../../src/model/formats/dequantize.js';
import { openCheckpoint } from '../../../src/model/formats/open.js';
import { parameterShapes } from '../../../src/model/formats/parameters.js';
import { type GgufContents, type GgufValue, ggufFile } from '../../support/gguf-file.js';
import { TINY_MODELS } from '../../support/model-directory.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { tinyGguf } from '../../support/tiny-gguf.js';

const directory = temporaryDirectory();
let files = 0;

async function open(contents: GgufContents): Promise<Checkpoint> {
  const path = join(directory, `${files++}.gguf`);
  writeFileSync(path, ggufFile(contents));
  return openCheckpoint(path);
}

function withMetadata(contents: GgufContents, changes: Record<string, GgufValue | undefined>): GgufContents {
  const entries = Object.entries({ ...contents.metadata, ...changes }).filter(([, value]) => value !== undefined);
  return { ...contents, metadata: Object.fromEntries(entries) as Record<string, GgufValue> };
}

function sameBits(a: Float32Array, b: Float32Array): boolean {
  return Buffer.from(a.buffer).equals(Buffer.from(b.buffer));
}

describe.each(['llama', 'llama3-rope', 'mistral', 'qwen2', 'qwen3', 'phi3', 'gemma3'])('tiny-%s as GGUF', (name) => {
  it('has the architecture and parameters of the safetensors', async () => {
    const original = await openCheckpoint(`${TINY_MODELS}tiny-${name}`);
    const converted = await open(tinyGguf(`tiny-${name}`));
    const { ropes, normEpsilon, ...rest } = converted.architecture;
    const { ropes: wantedRopes, normEpsilon: wantedEpsilon, ...wanted } = original.architecture;
    expect(rest).toEqual({ ...wanted, family: name === 'mistral' || name === 'llama3-rope' ? 'llama' : name });
    expect(normEpsilon).toBe(Math.fround(wantedEpsilon));
    expect(ropes.length).toBe(wantedRopes.length);
    for (const [i, rope] of ropes.entries()) {
      expect(rope.dimensions).toBe(wantedRopes[i]!.dimensions);
      for (const [pair, frequency] of rope.inverseFrequencies.entries()) {
        expect(frequency / wantedRopes[i]!.inverseFrequencies[pair]!).toBeCloseTo(1, 6);
      }
    }
    for (const [parameter, shape] of parameterShapes(original.architecture)) {
      const values = await converted.readFloat32(parameter);
      expect(converted.info(parameter)?.shape).toEqual(shape);
      expect(sameBits(values, await original.readFloat32(parameter)), parameter).toBe(true);
      const raw = new Float32Array(values.length);
      dequantize(converted.info(parameter)!.type, await converted.readRaw(parameter), raw);
      expect(sameBits(raw, values), parameter).toBe(true);
    }
    await original.close();
    await converted.close();
  });
});

describe('metadata', () => {
  const llama = tinyGguf('tiny-llama');

  it('may leave out head sizes and RoPE dimensions', async () => {
    const checkpoint = await open(
      withMetadata(llama, { 'llama.attention.key_length': undefined, 'llama.attention.value_length': undefined }),
    );
    expect(checkpoint.architecture.headSize).toBe(16);
    expect(checkpoint.architecture.ropes[0]!.dimensions).toBe(16);
    await checkpoint.close();
  });

  it('scales linearly, under both names', async () => {
    for (const changes of [
      { 'llama.rope.scaling.type': 'linear', 'llama.rope.scaling.factor': { f32: 4 } },
      { 'llama.rope.scale_linear': { f32: 4 } },
    ]) {
      const checkpoint = await open(withMetadata(llama, changes));
      expect(checkpoint.architecture.ropes[0]!.inverseFrequencies[0]).toBe(0.25);
      await checkpoint.close();
    }
  });

  it('scales only the global layers of Gemma 3, which come sixth by default', async () => {
    const gemma = tinyGguf('tiny-gemma3');
    const checkpoint = await open(
      withMetadata(gemma, {
        'gemma3.rope.scaling.type': 'linear',
        'gemma3.rope.scaling.factor': { f32: 8 },
        'gemma3.attention.sliding_window_pattern': 2,
      }),
    );
    const { ropes, layers } = checkpoint.architecture;
    expect(ropes.map((rope) => rope.inverseFrequencies[0])).toEqual([0.125, 1]);
    expect(layers).toEqual([
      { rope: 1, slidingWindow: 24 },
      { rope: 0, slidingWindow: undefined },
      { rope: 1, slidingWindow: 24 },
    ]);
    await checkpoint.close();
    const byDefault = await open(withMetadata(gemma, { 'gemma3.attention.sliding_window_pattern': undefined }));
    expect(byDefault.architecture.layers.every((layer) => layer.slidingWindow === 24)).toBe(true);
    await byDefault.close();
  });

  it('turns only the first rows of a head where RoPE covers a part of it', async () => {
    const full = await open(llama);
    const partial = await open(withMetadata(llama, { 'llama.rope.dimension_count': 8 }));
    const rowsOf = async (checkpoint: Checkpoint): Promise<Float32Array[]> => {
      const values = await checkpoint.readFloat32('layers.0.k');
      return Array.from({ length: 32 }, (_, row) => values.slice(row * 64, (row + 1) * 64));
    };
    const [fullRows, partialRows] = [await rowsOf(full), await rowsOf(partial)];
    // Stored pairs (0,1), (2,3), ... are rows i and i + 8 of a head when all of it turns.
    const stored = Array.from({ length: 16 }, (_, i) => fullRows[(i >> 1) + (i % 2) * 8]!);
    const wanted = [0, 2, 4, 6, 1, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15].map((i) => stored[i]!);
    expect(partialRows.slice(0, 16)).toEqual(wanted);
    await full.close();
    await partial.close();
  });

  it('gives the union of all ends: ids by name and control tokens that end texts (case 60)', async () => {
    const tokens = (llama.metadata['tokenizer.ggml.tokens'] as { texts: string[] }).texts;
    expect([tokens[0], tokens[2]]).toEqual(['<|endoftext|>', '<|im_end|>']);
    const checkpoint = await open(
      withMetadata(llama, { 'tokenizer.ggml.eos_token_id': 106, 'tokenizer.ggml.eot_token_id': 7 }),
    );
    expect(checkpoint.endTokens).toEqual([0, 2, 7, 106]);
    await checkpoint.close();
  });

  it('does not take ordinary tokens with the text of an end for ends', async () => {
    const types = (llama.metadata['tokenizer.ggml.token_type'] as { i32s: number[] }).i32s;
    const checkpoint = await open(
      withMetadata(llama, { 'tokenizer.ggml.token_type': { i32s: types.map((type, id) => (id === 0 ? 1 : type)) } }),
    );
    expect(checkpoint.endTokens).toEqual([2]);
    await checkpoint.close();
  });

  it('brings name and sampling defaults', async () => {
    const checkpoint = await open(
      withMetadata(llama, { 'general.sampling.temp': { f32: 0.5 }, 'general.sampling.top_k': 20 }),
    );
    expect(checkpoint.name).toBe('Tiny');
    expect(checkpoint.generation).toEqual({ temperature: 0.5, topK: 20 });
    await checkpoint.close();
  });
});

describe('a llama with biases on q, k and v', () => {
  it('has them un-permuted like the rows', async () => {
    const contents = tinyGguf('tiny-llama');
    const biases = [0, 1, 2].flatMap((layer) =>
      (['q', 'k', 'v'] as const).map((part) => {
        const values = Float32Array.from({ length: part === 'q' ? 64 : 32 }, (_, i) => i);
        return {
          name: `blk.${layer}.attn_${part}.bias`,
          shape: [values.length],
          type: 0,
          data: new Uint8Array(values.buffer),
        };
      }),
    );
    const checkpoint = await open({ ...contents, tensors: [...contents.tensors, ...biases] });
    expect(checkpoint.architecture.qkvBias).toBe(true);
    const head = [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15];
    expect([...(await checkpoint.readFloat32('layers.1.kBias'))]).toEqual([...head, ...head.map((i) => i + 16)]);
    expect([...(await checkpoint.readFloat32('layers.1.vBias'))]).toEqual(Array.from({ length: 32 }, (_, i) => i));
    await checkpoint.close();
  });
});
