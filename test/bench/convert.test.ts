import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { requantizeGguf } from '../../bench/peers/convert/gguf.js';
import { exportHuggingface } from '../../bench/peers/convert/huggingface.js';
import { openCheckpoint } from '../../src/model/formats/open.js';
import { parameterShapes } from '../../src/model/formats/parameters.js';
import { ggufFile } from '../support/gguf-file.js';
import { temporaryDirectory } from '../support/temporary.js';
import { tinyGguf } from '../support/tiny-gguf.js';

const directory = temporaryDirectory();

function writeTiny(name: string): string {
  const path = join(directory, name);
  writeFileSync(path, ggufFile(tinyGguf('tiny-llama')));
  return path;
}

describe('requantizeGguf', () => {
  it.each(['Q4_0', 'Q8_0'] as const)('changes the matrices of the layers to %s and nothing else', async (type) => {
    const source = writeTiny(`${type}-source.gguf`);
    const target = join(directory, `${type}.gguf`);
    await requantizeGguf(source, target, type);
    const before = await openCheckpoint(source);
    const after = await openCheckpoint(target);
    expect(after.architecture).toEqual(before.architecture);
    expect(after.endTokens).toEqual(before.endTokens);
    for (const [name, shape] of parameterShapes(before.architecture)) {
      const changed = name.startsWith('layers.') && shape.length === 2;
      expect(after.info(name)?.type, name).toBe(changed ? type : before.info(name)?.type);
      const [was, is] = [await before.readFloat32(name), await after.readFloat32(name)];
      if (!changed) expect(is, name).toEqual(was);
      // Relative to the largest weight, no block's step is wider than this.
      const step = was.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / (type === 'Q4_0' ? 8 : 127);
      const worst = was.reduce((most, value, i) => Math.max(most, Math.abs(value - is[i]!)), 0);
      expect(worst, name).toBeLessThanOrEqual(1.01 * step);
    }
    await before.close();
    await after.close();
  });
});

describe('exportHuggingface', () => {
  it('writes a directory that reads as the same model, and a tokenizer with no gaps in its vocabulary', async () => {
    const source = writeTiny('export.gguf');
    const target = join(directory, 'exported');
    await exportHuggingface(source, target);
    const before = await openCheckpoint(source);
    const after = await openCheckpoint(target);
    expect(after.format).toBe('safetensors');
    expect(after.architecture).toEqual(before.architecture);
    expect(after.endTokens).toEqual([2]);
    for (const [name] of parameterShapes(before.architecture)) {
      // Weights of the tiny models are exact in fp16.
      expect(await after.readFloat32(name), name).toEqual(await before.readFloat32(name));
    }
    const { tokenizer } = after.tokenizer as { tokenizer: { model: { vocab: Record<string, number> } } };
    const ids = Object.values(tokenizer.model.vocab).sort((a, b) => a - b);
    expect(ids.length).toBeGreaterThan(256);
    expect(ids).toEqual(ids.map((_, place) => place));
    await before.close();
    await after.close();
  });
});
