/** The GGUF header reader against another parser, and where that one fails. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gguf } from '@huggingface/gguf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BinaryFile } from '../../../src/model/formats/binary-file.js';
import { type GgufHeader, readGgufHeader } from '../../../src/model/formats/gguf/header.js';
import { type GgufValue, ggufFile, text, u32, u64 } from '../../support/gguf-file.js';
import { temporaryDirectory } from '../../support/temporary.js';

const directory = temporaryDirectory();
const bundled = new URL('../../../models/SmolLM2-135M-Instruct.Q4_1.gguf', import.meta.url).pathname;

async function readFile(path: string): Promise<GgufHeader> {
  const file = await BinaryFile.open(path);
  try {
    return await readGgufHeader(file);
  } finally {
    await file.close();
  }
}

async function read(contents: Uint8Array): Promise<GgufHeader> {
  const path = join(directory, 'header.gguf');
  writeFileSync(path, contents);
  return readFile(path);
}

async function readMetadata(metadata: Record<string, GgufValue>): Promise<Readonly<Record<string, unknown>>> {
  return (await read(ggufFile({ metadata, tensors: [] }))).metadata;
}

describe('the header', () => {
  it('of the bundled model reads as @huggingface/gguf reads it', async () => {
    const theirs = await gguf(bundled, { allowLocalFile: true });
    const ours = await readFile(bundled);
    const { version: _, tensor_count: __, kv_count: ___, ...metadata } = theirs.metadata;
    expect(Object.keys(ours.metadata)).toEqual(Object.keys(metadata));
    expect(JSON.stringify(ours.metadata) === JSON.stringify(metadata)).toBe(true);
    expect(ours.dataStart).toBe(Number(theirs.tensorDataOffset));
    expect(ours.tensors).toEqual(
      theirs.tensorInfos.map(({ name, shape, dtype, offset }) => ({
        name,
        shape: shape.map(Number),
        type: dtype as number,
        offset: Number(offset),
      })),
    );
  });

  it('gives every type of number, alone and in lists', async () => {
    const bytes = (type: number, hex: string): GgufValue => ({
      bytes: Buffer.concat([u32(type), Buffer.from(hex, 'hex')]),
    });
    const metadata = await readMetadata({
      u8: bytes(0, 'fe'),
      i8: bytes(1, 'fe'),
      u16: bytes(2, 'feff'),
      i16: bytes(3, 'feff'),
      u32: bytes(4, 'feffffff'),
      i32: bytes(5, 'feffffff'),
      f32: bytes(6, '0000c03f'),
      yes: true,
      no: false,
      u64: bytes(10, 'feffffffffffffff'),
      i64: bytes(11, 'feffffffffffffff'),
      f64: bytes(12, '9a9999999999b93f'),
      i32s: { i32s: [1, -2, 3] },
      f32s: { f32s: [0.5, -1.5] },
      bools: { bools: [true, false] },
      empty: { texts: [] },
      nested: {
        bytes: Buffer.concat([u32(9), u32(9), u64(2), u32(8), u64(1), text('a'), u32(0), u64(2), Buffer.of(7, 8)]),
      },
      alignment: 1,
    });
    expect(metadata).toEqual({
      u8: 254,
      i8: -2,
      u16: 65_534,
      i16: -2,
      u32: 4_294_967_294,
      i32: -2,
      f32: 1.5,
      yes: true,
      no: false,
      u64: 2n ** 64n - 2n,
      i64: -2n,
      f64: 0.1,
      i32s: [1, -2, 3],
      f32s: [0.5, -1.5],
      bools: [true, false],
      empty: [],
      nested: [['a'], [7, 8]],
      alignment: 1,
    });
  });

  it('keeps texts whole wherever they lie and however long they are', async () => {
    const long = 'ÿ'.repeat(1_500_000);
    const texts = [...Array<string>(600).fill('y'.repeat(1990)), `${'z'.repeat(40_000)}🙂`];
    const metadata = await readMetadata({ long, list: { texts }, mark: '\ufeffmark', after: 7 });
    expect(metadata['long'] === long).toBe(true);
    expect(metadata['list']).toEqual(texts);
    expect(metadata['mark']).toBe('\ufeffmark');
    expect(metadata['after']).toBe(7);
  });

  it('is the same wherever the reader has to read on', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: -80, max: 10 }), async (shift) => {
        const padding = 'p'.repeat((1 << 20) + shift - 40);
        const metadata = { padding, number: 5, texts: { texts: ['ab', '', 'c'] }, list: { i32s: [1, 2, 3] }, end: 'e' };
        expect(await readMetadata(metadata)).toEqual({ ...metadata, texts: ['ab', '', 'c'], list: [1, 2, 3] });
      }),
      { numRuns: 60 },
    );
  });

  it('keeps odd keys as keys', async () => {
    const metadata = await readMetadata({ ['__proto__']: 1, constructor: 2 });
    expect(Object.keys(metadata)).toEqual(['__proto__', 'constructor']);
  });

  it('refuses a key that is listed twice and an alignment that is none', async () => {
    const pair = (key: string, value: number): Buffer => Buffer.concat([text(key), u32(4), u32(value)]);
    const header = (...pairs: Buffer[]): Buffer =>
      Buffer.concat([Buffer.from('GGUF'), u32(3), u64(0), u64(pairs.length), ...pairs, Buffer.alloc(64)]);
    await expect(read(header(pair('a', 1), pair('a', 2)))).rejects.toThrow('metadata key a is listed twice');
    for (const alignment of [0, 3, 48, 2 ** 31]) {
      await expect(read(header(pair('general.alignment', alignment)))).rejects.toThrow('is not a power of two');
    }
    expect((await read(header(pair('general.alignment', 64)))).dataStart).toBe(64);
  });
});
