/** Hugging Face directories: files that are damaged, missing or beside the point, heads, shards. */
import { createHash } from 'node:crypto';
import { readFileSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../../src/model/formats/checkpoint.js';
import { dequantize } from '../../../src/model/formats/dequantize.js';
import { openCheckpoint } from '../../../src/model/formats/open.js';
import { parameterShapes } from '../../../src/model/formats/parameters.js';
import { copyModel, type ModelChanges, TINY_MODELS } from '../../support/model-directory.js';
import { refusal } from '../../support/refusal.js';
import {
  headerLength,
  parseSafetensors,
  type SafetensorsTensor,
  type SafetensorsTensors,
  safetensorsFile,
} from '../../support/safetensors-file.js';
import { temporaryDirectory } from '../../support/temporary.js';

const directory = temporaryDirectory();
let copies = 0;
const copy = (model: string, changes: ModelChanges = {}): string =>
  copyModel(model, join(directory, `${copies++}`), changes);

const weights = readFileSync(join(TINY_MODELS, 'tiny-llama', 'model.safetensors'));
const UP = 'model.layers.0.mlp.up_proj.weight';

function changed(name: string, changes: Partial<SafetensorsTensor>): ModelChanges {
  return { tensors: (tensors) => ({ ...tensors, [name]: { ...tensors[name]!, ...changes } }) };
}

function removed(name: string): ModelChanges {
  return { tensors: (tensors) => Object.fromEntries(Object.entries(tensors).filter(([key]) => key !== name)) };
}

/** All parameters' bytes as f32, one after another, as hex of their sha256; closes the checkpoint. */
async function allValues(checkpoint: Checkpoint): Promise<string> {
  const values = createHash('sha256');
  for (const [name] of parameterShapes(checkpoint.architecture)) {
    values.update(new Uint8Array((await checkpoint.readFloat32(name)).buffer));
  }
  await checkpoint.close();
  return values.digest('hex');
}

describe.each(['llama', 'llama3-rope', 'qwen2', 'qwen3', 'mistral', 'gemma3', 'phi3'])('tiny-%s', (name) => {
  it('opens with all parameters in their shapes', async () => {
    const checkpoint = await openCheckpoint(`${TINY_MODELS}tiny-${name}/`);
    expect(checkpoint.name).toBe(`tiny-${name}`);
    expect(checkpoint.format).toBe('safetensors');
    expect(checkpoint.endTokens).toEqual([2]);
    expect(checkpoint.tokenizer.kind).toBe('huggingface');
    for (const [parameter, shape] of parameterShapes(checkpoint.architecture)) {
      const values = await checkpoint.readFloat32(parameter);
      expect(checkpoint.info(parameter)?.shape).toEqual(shape);
      expect(values.length).toBe(shape.reduce((a, b) => a * b, 1));
      expect(values.some((value) => value !== 0)).toBe(true);
      const raw = new Float32Array(values.length);
      dequantize(checkpoint.info(parameter)!.type, await checkpoint.readRaw(parameter), raw);
      expect(Buffer.from(raw.buffer).equals(Buffer.from(values.buffer)), parameter).toBe(true);
    }
    await checkpoint.close();
  });
});

describe('types', () => {
  it.each(['F32', 'BF16'] as const)('%s weights', async (dtype) => {
    const values = Float32Array.from({ length: 96 * 64 }, (_, i) => (i % 64) - 32);
    const bytes = Buffer.from(values.buffer);
    const upper = Buffer.from(Array.from({ length: values.length * 2 }, (_, i) => bytes[(i >> 1) * 4 + 2 + (i % 2)]!));
    const data = dtype === 'F32' ? bytes : upper;
    const checkpoint = await openCheckpoint(copy('tiny-llama', changed(UP, { dtype, data })));
    expect(checkpoint.info('layers.0.up')?.type).toBe(dtype);
    expect(Buffer.from((await checkpoint.readFloat32('layers.0.up')).buffer).equals(bytes)).toBe(true);
    await checkpoint.close();
  });

  it.each(['F64', 'I8', 'F8_E4M3', 'Q8_0', 'U8'])('%s is refused by name', async (dtype) => {
    expect(await refusal(copy('tiny-llama', changed(UP, { dtype })))).toMatch(`${UP} has type ${dtype}`);
  });
});

describe('damaged weights (case 62)', () => {
  const at = (contents: Uint8Array | string): string =>
    copy('tiny-llama', { files: { 'model.safetensors': contents } });

  it('loads headers of 99,990 to 100,010 bytes', async () => {
    const path = copy('tiny-llama');
    const original = await allValues(await openCheckpoint(join(TINY_MODELS, 'tiny-llama')));
    for (let bytes = 99_990; bytes <= 100_010; bytes++) {
      const file = safetensorsFile(parseSafetensors(weights), bytes);
      expect(Number(file.readBigUInt64LE(0))).toBe(bytes);
      writeFileSync(join(path, 'model.safetensors'), file);
      expect(await allValues(await openCheckpoint(path))).toEqual(original);
    }
  });

  it('refuses a file cut anywhere', async () => {
    for (const length of [0, 1, 7, 8, 9, 1000, weights.length >> 1, weights.length - 1]) {
      const fault = await refusal(at(weights.subarray(0, length)));
      expect(fault).toMatch(length === 0 ? /is empty/ : length < 8 ? /too few/ : /the file is incomplete/);
      expect(fault).toMatch(/^\/model.safetensors: /);
    }
  });

  it.each([
    [
      'a Git LFS pointer',
      'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 253736\n',
      /a Git LFS pointer/,
    ],
    ['a web page', '<html>'.padEnd(2000), /a web page/],
    ['text', 'this is not a model', /announce a header of \d+ bytes/],
    ['a header that is not JSON', Buffer.concat([headerLength(20), Buffer.alloc(100, 120)]), /not a JSON object/],
    ['a header that is a list', Buffer.concat([headerLength(2), Buffer.from('[]  ')]), /not a JSON object/],
    [
      'a header that is not UTF-8',
      Buffer.concat([headerLength(4), Buffer.from('7bff227d', 'hex')]),
      /not a JSON object/,
    ],
  ])('refuses %s', async (_, contents, fault) => {
    expect(await refusal(at(contents))).toMatch(fault);
  });

  it.each<[string, Partial<SafetensorsTensor>, RegExp]>([
    ['overlapping', { offsets: [0, 96 * 64 * 2] }, /tensors \S+ and \S+ overlap/],
    [
      'of a size that its shape does not have',
      { shape: [96, 63] },
      /takes 12096 bytes as F16, but its place has 12288/,
    ],
    ['of another shape', { shape: [64, 96] }, /has shape \[64, 96\], but the settings ask for \[96, 64\]/],
    ['past the end', { offsets: [2 ** 40, 2 ** 40 + 96 * 64 * 2] }, /the file is incomplete: tensor/],
    ['backwards', { offsets: [20, 10] }, /entry of tensor \S+ is malformed/],
    ['with a negative place', { offsets: [-2, 10] }, /entry of tensor \S+ is malformed/],
    ['with a fractional size', { shape: [1.5, 64] }, /entry of tensor \S+ is malformed/],
    ['with an empty dimension', { shape: [0, 64] }, /impossible shape \[0, 64\]/],
  ])('refuses a tensor %s', async (_, changes, fault) => {
    const message = await refusal(copy('tiny-llama', changed(UP, changes)));
    expect(message).toMatch(fault);
    expect(message).toContain(UP);
  });

  it('refuses a missing parameter, and one that would be left out', async () => {
    expect(await refusal(copy('tiny-llama', removed(UP)))).toBe(`: tensor ${UP} is missing`);
    const bias = { dtype: 'F16', shape: [64], data: new Uint8Array(128) };
    const name = 'model.layers.1.self_attn.o_proj.bias';
    expect(await refusal(copy('tiny-llama', { tensors: (tensors) => ({ ...tensors, [name]: bias }) }))).toContain(
      `${name} is not part of a llama model`,
    );
  });
});

describe('other files of the directory', () => {
  it.each([
    ['config.json', undefined, /no config.json/],
    ['tokenizer.json', undefined, /tokenizer.json is missing/],
    ['model.safetensors', undefined, /model.safetensors: no such file/],
    ['config.json', '{"model_type": ', /config.json: not JSON/],
    ['config.json', '[1]', /config.json: not a JSON object/],
    ['tokenizer.json', 'version https://git-lfs.github.com/spec/v1\n', /tokenizer.json: a Git LFS pointer/],
    ['generation_config.json', '{"eos_token_id": 9999}', /generation_config.json: eos_token_id holds 9999/],
  ])('%s as %j', async (name, contents, fault) => {
    expect(await refusal(copy('tiny-llama', { files: { [name]: contents } }))).toMatch(fault);
  });

  it('give defaults, templates and all ends (case 60)', async () => {
    const path = copy('tiny-llama', {
      config: { eos_token_id: [5, 6] },
      files: {
        'generation_config.json': JSON.stringify({ eos_token_id: [7, 5], temperature: 0.6, top_p: 0.9, top_k: 40 }),
        'chat_template.jinja': undefined,
        'chat_template.json': JSON.stringify({ chat_template: 'from JSON' }),
      },
    });
    const checkpoint = await openCheckpoint(path);
    expect(checkpoint.endTokens).toEqual([2, 5, 6, 7]);
    expect(checkpoint.generation).toEqual({ temperature: 0.6, topK: 40, topP: 0.9 });
    expect(checkpoint.tokenizer).toMatchObject({ chatTemplate: 'from JSON', config: { eos_token: '<|im_end|>' } });
    await checkpoint.close();
  });

  it('may lack a template and a tokenizer configuration', async () => {
    const path = copy('tiny-llama', {
      files: { 'chat_template.jinja': undefined, 'tokenizer_config.json': undefined },
    });
    const checkpoint = await openCheckpoint(path);
    expect(checkpoint.tokenizer).toMatchObject({ chatTemplate: undefined, config: {} });
    await checkpoint.close();
  });
});

describe('heads (case 63)', () => {
  const head = (tensors: SafetensorsTensors): SafetensorsTensor => tensors['model.embed_tokens.weight']!;
  const negated = (tensors: SafetensorsTensors): SafetensorsTensors => ({
    ...tensors,
    'lm_head.weight': { ...head(tensors), data: head(tensors).data.map((byte, i) => (i % 2 ? byte ^ 0x80 : byte)) },
  });

  it.each([
    ['absent and tied', { config: { tie_word_embeddings: true } }, true],
    ['absent and not mentioned', { config: { tie_word_embeddings: undefined } }, true],
    ['present as well, but tied', { config: { tie_word_embeddings: true }, tensors: negated }, true],
    ['present and untied', { config: { tie_word_embeddings: false }, tensors: negated }, false],
    ['present and not mentioned', { config: { tie_word_embeddings: undefined }, tensors: negated }, false],
  ])('%s', async (_, changes, tied) => {
    const checkpoint = await openCheckpoint(copy('tiny-llama', changes));
    expect(checkpoint.architecture.tiedHead).toBe(tied);
    if (tied) expect(checkpoint.info('head')).toBeUndefined();
    else expect((await checkpoint.readFloat32('head'))[1]).toBe(-(await checkpoint.readFloat32('embedding'))[1]!);
    await checkpoint.close();
  });

  it('absent, but said to be untied: refused', async () => {
    expect(await refusal(copy('tiny-llama', { config: { tie_word_embeddings: false } }))).toMatch(
      /tie_word_embeddings is false, but the weights hold no head/,
    );
  });
});

describe('shards (case 61)', () => {
  const sharded = (): string => {
    const path = copy('tiny-qwen3');
    const tensors = Object.entries(parseSafetensors(readFileSync(join(path, 'model.safetensors'))));
    const map: Record<string, string> = {};
    const shards = new Map<string, SafetensorsTensors>();
    tensors.forEach(([name, tensor], i) => {
      const shard = `model-0000${(i % 3) + 1}-of-00003.safetensors`;
      map[name] = shard;
      shards.set(shard, { ...shards.get(shard), [name]: tensor });
    });
    for (const [shard, contents] of shards) writeFileSync(join(path, shard), safetensorsFile(contents));
    writeFileSync(join(path, 'model.safetensors.index.json'), JSON.stringify({ weight_map: map }));
    // Not in the index: must not be read.
    writeFileSync(join(path, 'model.safetensors'), 'not a model');
    writeFileSync(
      join(path, 'extra.safetensors'),
      safetensorsFile({ [UP]: { dtype: 'F16', shape: [1], data: new Uint8Array(2) } }),
    );
    return path;
  };

  it('are read as one; files that the index does not name are not', async () => {
    const values = await allValues(await openCheckpoint(sharded()));
    expect(values).toEqual(await allValues(await openCheckpoint(join(TINY_MODELS, 'tiny-qwen3'))));
  });

  it('that are missing or cut are named', async () => {
    const missing = sharded();
    unlinkSync(join(missing, 'model-00002-of-00003.safetensors'));
    expect(await refusal(missing)).toBe('/model-00002-of-00003.safetensors: no such file');
    const cut = sharded();
    truncateSync(join(cut, 'model-00003-of-00003.safetensors'), 30_000);
    expect(await refusal(cut)).toMatch(/^\/model-00003-of-00003.safetensors: the file is incomplete/);
  });

  it('must hold what the index places there, and lie beside it', async () => {
    const path = sharded();
    const index = join(path, 'model.safetensors.index.json');
    const map = (JSON.parse(readFileSync(index, 'utf8')) as { weight_map: Record<string, string> }).weight_map;
    writeFileSync(
      index,
      JSON.stringify({ weight_map: { ...map, [UP]: 'model-00002-of-00003.safetensors', other: map[UP] } }),
    );
    expect(await refusal(path)).toMatch(/tensor \S+ is missing, which the index places here/);
    writeFileSync(index, JSON.stringify({ weight_map: { ...map, [UP]: '../model.safetensors' } }));
    expect(await refusal(path)).toMatch(/names \.\.\/model.safetensors, which is not a file beside it/);
  });
});
