/** The bundled model: opened fast, read within little memory, refused when its header is cut. */
import { copyFileSync, truncateSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { dequantize } from '../../../src/model/formats/dequantize.js';
import { openCheckpoint } from '../../../src/model/formats/open.js';
import { parameterShapes } from '../../../src/model/formats/parameters.js';
import { refusal } from '../../support/refusal.js';
import { temporaryDirectory } from '../../support/temporary.js';

const path = new URL('../../../models/SmolLM2-135M-Instruct.Q4_1.gguf', import.meta.url).pathname;
const directory = temporaryDirectory();
/** Where the header ends and tensor data begins. */
const DATA_START = 1_785_664;

describe('the bundled model', () => {
  it('opens in under 2 s with the right architecture', async () => {
    const start = performance.now();
    const checkpoint = await openCheckpoint(path);
    expect(performance.now() - start).toBeLessThan(2000);
    const { ropes, layers, ...architecture } = checkpoint.architecture;
    expect(architecture).toEqual({
      family: 'llama',
      vocabSize: 49_152,
      hiddenSize: 576,
      intermediateSize: 1536,
      numHeads: 9,
      numKvHeads: 3,
      headSize: 64,
      maxPositions: 8192,
      normEpsilon: Math.fround(1e-5),
      activation: 'silu',
      embeddingScale: 1,
      attentionScale: 0.125,
      qkvBias: false,
      qkNorm: false,
      postNorms: false,
      tiedHead: true,
    });
    expect(layers).toEqual(Array(30).fill({ rope: 0, slidingWindow: undefined }));
    expect(ropes).toHaveLength(1);
    expect(ropes[0]!.inverseFrequencies[31]).toBeCloseTo(100_000 ** (-62 / 64), 15);
    expect(checkpoint.format).toBe('gguf');
    expect(checkpoint.name).toBe('Smollm2 135M 8k Lc100K Mix1 Ep2');
    expect(checkpoint.endTokens).toEqual([0, 2]);
    expect(checkpoint.info('embedding')).toEqual({ shape: [49_152, 576], type: 'Q8_0' });
    expect(checkpoint.info('layers.29.down')).toEqual({ shape: [576, 1536], type: 'Q4_1' });
    expect(checkpoint.info('head')).toBeUndefined();
    expect(checkpoint.info('layers.30.down')).toBeUndefined();
    await expect(checkpoint.readFloat32('head')).rejects.toThrow('the model has no parameter head');
    await checkpoint.close();
  });

  it('gives raw blocks in the order of the parameter', async () => {
    const checkpoint = await openCheckpoint(path);
    for (const name of ['layers.0.q', 'layers.3.k', 'layers.7.down'] as const) {
      const values = await checkpoint.readFloat32(name);
      const raw = new Float32Array(values.length);
      dequantize('Q4_1', await checkpoint.readRaw(name), raw);
      expect(Buffer.from(raw.buffer).equals(Buffer.from(values.buffer))).toBe(true);
    }
    await checkpoint.close();
  });

  it('is read one parameter at a time, with memory near the largest', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const checkpoint = await openCheckpoint(path);
    collect();
    const before = process.memoryUsage().arrayBuffers;
    let peak = 0;
    for (const [name] of parameterShapes(checkpoint.architecture)) {
      // Later layers are like the first ones.
      if (name === 'layers.4.attentionNorm') break;
      collect();
      await checkpoint.readFloat32(name);
      peak = Math.max(peak, process.memoryUsage().arrayBuffers - before);
    }
    expect(peak).toBeLessThan(1.1 * 49_152 * 576 * 4);
    await checkpoint.close();
  });

  it('is refused when cut anywhere in the header, at every 4 KiB (case 58)', async () => {
    const cut = join(directory, 'cut.gguf');
    copyFileSync(path, cut);
    for (let length = DATA_START - (DATA_START % 4096); length >= 0; length -= 4096) {
      truncateSync(cut, length);
      expect(await refusal(cut)).toMatch(length === 0 ? /the file is empty/ : /cut off/);
    }
  });

  it('is refused when its data are cut, and opens with a padded tail (case 58)', async () => {
    const copy = join(directory, 'copy.gguf');
    copyFileSync(path, copy);
    const file = await open(copy, 'r+');
    const { size } = await file.stat();
    await file.truncate(size + 4096);
    await (await openCheckpoint(copy)).close();
    for (const length of [size - 1, size / 2, DATA_START + 1, DATA_START]) {
      await file.truncate(length);
      expect(await refusal(copy)).toMatch(/the file is incomplete: tensor \S+ ends at byte \d+/);
    }
    await file.close();
  });
});
