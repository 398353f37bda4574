/** Damaged and unsupported GGUF files are refused in one line, fast, and never crash the reader. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LoadError } from '../../../src/errors.js';
import { openCheckpoint } from '../../../src/model/formats/open.js';
import {
  type GgufContents,
  type GgufTensor,
  type GgufValue,
  ggufFile,
  text,
  u32,
  u64,
} from '../../support/gguf-file.js';
import { refusal } from '../../support/refusal.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { tinyGguf } from '../../support/tiny-gguf.js';

const directory = temporaryDirectory();
const llama = tinyGguf('tiny-llama');

async function refuse(contents: GgufContents | Uint8Array): Promise<string> {
  const path = join(directory, 'model.gguf');
  writeFileSync(path, contents instanceof Uint8Array ? contents : ggufFile(contents));
  return refusal(path);
}

function metadata(changes: Record<string, GgufValue>, contents = llama): GgufContents {
  return { ...contents, metadata: { ...contents.metadata, ...changes } };
}

function tensor(name: string, changes: Partial<GgufTensor>, contents = llama): GgufContents {
  return { ...contents, tensors: contents.tensors.map((t) => (t.name === name ? { ...t, ...changes } : t)) };
}

function without(name: string): GgufContents {
  return { ...llama, tensors: llama.tensors.filter((t) => t.name !== name) };
}

function extra(name: string, shape: readonly number[]): GgufContents {
  const data = new Uint8Array(4 * shape.reduce((a, b) => a * b, 1)).fill(1);
  return { ...llama, tensors: [...llama.tensors, { name, shape, type: 0, data }] };
}

/** A file that begins like a GGUF of one metadata key and goes on with the given bytes. */
function header(...parts: readonly Uint8Array[]): Buffer {
  return Buffer.concat([Buffer.from('GGUF'), u32(3), u64(0), u64(1), ...parts, Buffer.alloc(64)]);
}

describe('what is no GGUF file (case 58)', () => {
  it.each([
    ['a web page', '<!DOCTYPE html><html><body>Not found</body></html>'.padEnd(4096), /a web page saved under/],
    [
      'a Git LFS pointer',
      `version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 98362432\n`,
      /a Git LFS pointer, not the file of 98,362,432 bytes .*git lfs pull/,
    ],
    ['a text', 'hello, this is not a model at all', /does not start with "GGUF"/],
    ['a zip', 'PK\u0003\u0004'.padEnd(100), /a ZIP archive/],
    ['a short file', 'GGUF', /cut off/],
    ['nothing', '', /the file is empty/],
  ])('%s', async (_, contents, fault) => {
    expect(await refuse(Buffer.from(contents, 'latin1'))).toMatch(fault);
  });

  it('a missing file, a directory without config.json, a bare safetensors file', async () => {
    expect(await refusal(join(directory, 'absent.gguf'))).toMatch(/no such file/);
    expect(await refusal(directory)).toMatch(/no config.json/);
    writeFileSync(join(directory, 'model.safetensors'), Buffer.alloc(100));
    expect(await refusal(join(directory, 'model.safetensors'))).toMatch(/give the directory instead/);
  });
});

describe('damaged headers (case 58)', () => {
  const key = text('a.key');
  it.each([
    ['version 1', ggufFile({ ...llama, version: 1 }), /GGUF version 1 is not supported/],
    ['version 9', ggufFile({ ...llama, version: 9 }), /GGUF version 9 is not supported/],
    ['big-endian', Buffer.from('GGUF\u0000\u0000\u0000\u0003'.padEnd(64, '\u0000'), 'latin1'), /big-endian/],
    ['2^60 keys', ggufFile({ ...llama, pairCount: 2 ** 60 }), /announces 11529215046068\d+ metadata keys/],
    ['2^60 tensors', ggufFile({ ...llama, tensorCount: 2 ** 60 }), /announces 11529215046068\d+ tensors/],
    ['an empty key', ggufFile(metadata({ '': 1 })), /metadata key \d+ is empty/],
    ['a key of 2^62 bytes', header(u64(2 ** 62)), /announces 46116860184273\d+ bytes for a metadata key/],
    ['an unknown value type', header(key, u32(77)), /unknown metadata type 77/],
    ['an unknown list type', header(key, u32(9), u32(13), u64(1)), /unknown metadata type 13/],
    ['a text past the end', header(key, u32(8), u64(1000)), /announces 1000 bytes for a.key/],
    ['a list of 2^50 numbers', header(key, u32(9), u32(4), u64(2 ** 50)), /announces \d+ elements of a.key/],
    ['a list of 2^50 texts', header(key, u32(9), u32(8), u64(2 ** 50)), /announces \d+ elements of a.key/],
    [
      'lists nested without end',
      header(key, u32(9), ...Array.from({ length: 5 }, () => [u32(9), u64(1)]).flat(), Buffer.alloc(64)),
      /nested too deeply/,
    ],
    ['a long list', header(key, u32(9), u32(0), u64(5_000_000), Buffer.alloc(5_000_000)), /a.key has 5000000 elements/],
    ['an empty tensor name', ggufFile(tensor('output_norm.weight', { name: '' })), /name of tensor \d+ is empty/],
    [
      'no dimensions',
      ggufFile(tensor('output_norm.weight', { shape: [] })),
      /tensor output_norm.weight has 0 dimensions/,
    ],
    ['five dimensions', ggufFile(tensor('output_norm.weight', { shape: [1, 1, 1, 1, 64] })), /has 5 dimensions/],
    ['a zero dimension', ggufFile(tensor('output_norm.weight', { shape: [0] })), /dimension of size 0/],
    ['a huge dimension', ggufFile(tensor('output_norm.weight', { shape: [2 ** 61] })), /dimension of size 23058/],
  ])('%s', async (_, contents, fault) => {
    expect(await refuse(contents)).toMatch(fault);
  });
});

describe('tensors that do not fit', () => {
  it.each([
    [
      'of a type that is not supported',
      tensor('blk.0.ffn_up.weight', { type: 14 }),
      /blk.0.ffn_up.weight has type Q6_K/,
    ],
    ['of an unknown type', tensor('blk.0.ffn_up.weight', { type: 200 }), /has type number 200/],
    [
      'with data past the end',
      tensor('blk.0.ffn_up.weight', { offset: 2 ** 40 }),
      /incomplete: tensor blk.0.ffn_up.weight/,
    ],
    [
      'with data far past the end',
      tensor('blk.0.ffn_up.weight', { offset: 2 ** 63 }),
      /incomplete: tensor blk.0.ffn_up/,
    ],
    ['misaligned', tensor('blk.0.ffn_up.weight', { offset: 7 }), /starts at 7, which is not a multiple of 32/],
    ['overlapping', tensor('blk.0.ffn_up.weight', { offset: 0 }), /tensors \S+ and \S+ overlap/],
    ['with rows of half blocks', tensor('blk.0.ffn_up.weight', { type: 8, shape: [96, 40] }), /not whole blocks of 32/],
    [
      'twice',
      tensor('blk.0.ffn_up.weight', { name: 'blk.0.ffn_gate.weight' }),
      /blk.0.ffn_gate.weight is listed twice/,
    ],
    ['absent', without('blk.2.ffn_down.weight'), /tensor blk.2.ffn_down.weight is missing/],
    ['absent: the embedding', without('token_embd.weight'), /tensor token_embd.weight is missing/],
    [
      'of another shape',
      tensor('blk.1.ffn_down.weight', { shape: [96, 64] }),
      /blk.1.ffn_down.weight has shape \[96, 64\], but the settings ask for \[64, 96\]/,
    ],
    ['of another rank', tensor('blk.1.attn_norm.weight', { shape: [1, 64] }), /has shape \[1, 64\], .* \[64\]/],
    [
      'that would be left out',
      extra('blk.0.attn_output.bias', [64]),
      /blk.0.attn_output.bias is not part of a llama model/,
    ],
    ['of a layer too many', extra('blk.3.attn_norm.weight', [64]), /blk.3.attn_norm.weight is not part of .* 3 layers/],
    ['of unknown use', extra('rope_factors_long.weight', [8]), /rope_factors_long.weight is not supported/],
    ['that scale RoPE wrongly', extra('rope_freqs.weight', [9]), /rope_freqs.weight does not fit/],
  ])('%s', async (_, contents, fault) => {
    expect(await refuse(contents)).toMatch(fault);
  });
});

describe('settings that are not supported', () => {
  const gemma = tinyGguf('tiny-gemma3');
  const phi = tinyGguf('tiny-phi3');
  it.each([
    [
      'an unknown architecture',
      metadata({ 'general.architecture': 'mamba' }),
      /general.architecture is mamba, which is not supp/,
    ],
    [
      'an unknown RoPE type (case 64)',
      metadata({ 'llama.rope.scaling.type': 'yarn' }),
      /llama.rope.scaling.type is yarn/,
    ],
    ['LongRoPE', metadata({ 'phi3.rope.scaling.type': 'longrope' }, phi), /phi3.rope.scaling.type is longrope/],
    ['experts', metadata({ 'llama.expert_count': 8 }), /llama.expert_count is set, which is not supported/],
    [
      'soft capping',
      metadata(
        { 'gemma3.final_logit_softcapping': { bytes: Buffer.concat([u32(6), Buffer.from([0, 0, 0xf0, 0x41])]) } },
        gemma,
      ),
      /gemma3.final_logit_softcapping is set/,
    ],
    ['one part of many', metadata({ 'split.count': 3 }), /one of 3 parts/],
    [
      'layers that differ',
      metadata({ 'llama.attention.head_count_kv': { i32s: [2, 2, 1] } }),
      /head_count_kv differs between/,
    ],
    ['heads that do not divide', metadata({ 'llama.attention.head_count_kv': 3 }), /4 attention heads cannot share 3/],
    [
      'values of another size',
      metadata({ 'llama.attention.value_length': 8 }),
      /keys of size 16 with values of size 8/,
    ],
    [
      'RoPE beyond the head',
      metadata({ 'llama.rope.dimension_count': 32 }),
      /dimension_count is 32, above the head size 16/,
    ],
    ['odd RoPE', metadata({ 'llama.rope.dimension_count': 7 }), /RoPE over 7 dimensions/],
    ['2^31 layers', metadata({ 'llama.block_count': 2 ** 31 }), /block_count is 2147483648, but the file holds/],
    ['huge heads', metadata({ 'llama.attention.key_length': 2 ** 31 }), /heads of size 2147483648/],
    ['no width', metadata({ 'llama.embedding_length': 0 }), /embedding_length is 0, which is out of range/],
    ['a width of text', metadata({ 'llama.embedding_length': 'wide' }), /embedding_length is not an integer/],
    [
      'another width',
      metadata({ 'llama.embedding_length': 128 }),
      /token_embd.weight has shape \[512, 64\].*\[512, 128\]/,
    ],
    [
      'more tokens than rows',
      metadata({ 'tokenizer.ggml.tokens': { texts: Array(600).fill('x') } }),
      /600 tokens, .* 512 rows/,
    ],
    ['an end outside the vocabulary', metadata({ 'tokenizer.ggml.eos_token_id': 512 }), /eos_token_id is 512/],
  ])('%s', async (_, contents, fault) => {
    expect(await refuse(contents)).toMatch(fault);
  });

  it('a setting that is missing is named', async () => {
    for (const key of ['block_count', 'embedding_length', 'attention.head_count', 'attention.layer_norm_rms_epsilon']) {
      const { [`llama.${key}`]: _, ...rest } = llama.metadata;
      expect(await refuse({ ...llama, metadata: rest })).toBe(`: llama.${key} is missing`);
    }
  });
});

describe('random damage', () => {
  it('is either harmless or refused', async () => {
    const whole = ggufFile(llama);
    const path = join(directory, 'random.gguf');
    const headerBytes = whole.length - llama.tensors.reduce((sum, { data }) => sum + data.length, 0);
    const damage = fc.record({
      flips: fc.array(fc.tuple(fc.nat(headerBytes - 1), fc.nat(255)), { minLength: 1, maxLength: 4 }),
      length: fc.oneof(fc.constant(whole.length), fc.nat(whole.length)),
    });
    await fc.assert(
      fc.asyncProperty(damage, async ({ flips, length }) => {
        const bytes = Buffer.from(whole);
        for (const [at, value] of flips) bytes[at] = value;
        writeFileSync(path, bytes.subarray(0, length));
        const start = performance.now();
        try {
          await (await openCheckpoint(path)).close();
        } catch (error) {
          expect(error).toBeInstanceOf(LoadError);
        }
        expect(performance.now() - start).toBeLessThan(2000);
      }),
      { numRuns: 300 },
    );
  });
});
