/**
 * The header of a GGUF file: metadata and the list of tensors. Layout: ggml/docs/gguf.md.
 *
 * It is read here because the parser of @huggingface/gguf takes bytes past the end of a file for zeros and cuts long texts,
 * of about half a megabyte and more, without a word.
 */
import { LoadError } from '../../../errors.js';
import type { BinaryFile } from '../binary-file.js';
import { Cursor } from './cursor.js';

const MAX_LIST_LENGTH = 1 << 22;
const MAX_HEADER_BYTES = 1 << 28;
const MAX_DIMENSIONS = 4;
const MAX_DEPTH = 4;
const DEFAULT_ALIGNMENT = 32;

export interface GgufTensorInfo {
  readonly name: string;
  /** As listed: the size whose elements lie side by side comes first. */
  readonly shape: readonly number[];
  /** ggml's number of the type. */
  readonly type: number;
  /** From the start of the data. */
  readonly offset: number;
}

export interface GgufHeader {
  /** 64-bit integers are bigints, lists are arrays. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly tensors: readonly GgufTensorInfo[];
  /** Where tensor data begins, from the file's start: a multiple of `alignment`, as are tensors' offsets. */
  readonly dataStart: number;
  readonly alignment: number;
}

/** Throws LoadError when the header is not that of a little-endian GGUF file of version 2 or 3, or not all there. */
export async function readGgufHeader(file: BinaryFile): Promise<GgufHeader> {
  const cursor = new Cursor(file);
  await cursor.ensure(4, 'the file header');
  if (cursor.u32() !== 0x46554747) throw new LoadError(file.path, 'not a GGUF file: it does not start with "GGUF"');
  await cursor.ensure(20, 'the file header');
  checkVersion(file, cursor.u32());
  const tensorCount = cursor.u64();
  const pairCount = cursor.u64();
  cursor.fits(tensorCount, 24, 'tensors');
  cursor.fits(pairCount, 13, 'metadata keys');
  const metadata = await readMetadata(cursor, pairCount);
  const tensors: GgufTensorInfo[] = [];
  for (let i = 0; i < tensorCount; i++) tensors.push(await readTensorInfo(cursor, i));
  if (cursor.position > MAX_HEADER_BYTES) {
    throw new LoadError(file.path, `a header of ${cursor.position} bytes is not supported`);
  }
  const alignment = readAlignment(file, metadata.get('general.alignment'));
  const dataStart = Math.ceil(cursor.position / alignment) * alignment;
  return { metadata: Object.fromEntries(metadata), tensors, dataStart, alignment };
}

function checkVersion(file: BinaryFile, version: number): void {
  if (version === 2 || version === 3) return;
  if (version !== 0 && (version & 0xffff) === 0) {
    throw new LoadError(file.path, 'a big-endian GGUF file, which is not supported');
  }
  throw new LoadError(file.path, `GGUF version ${version} is not supported (2 and 3 are)`);
}

function readAlignment(file: BinaryFile, value: unknown): number {
  if (value === undefined) return DEFAULT_ALIGNMENT;
  const alignment = Number(value);
  if (alignment >= 1 && alignment <= 1 << 20 && Number.isInteger(Math.log2(alignment))) return alignment;
  throw new LoadError(file.path, `general.alignment is ${String(value)}, which is not a power of two`);
}

async function readMetadata(cursor: Cursor, count: number): Promise<Map<string, unknown>> {
  const metadata = new Map<string, unknown>();
  for (let i = 0; i < count; i++) {
    const key = await cursor.text('a metadata key');
    if (key === '') throw new LoadError(cursor.file.path, `metadata key ${i} is empty`);
    if (metadata.has(key)) throw new LoadError(cursor.file.path, `metadata key ${key} is listed twice`);
    await cursor.ensure(4, `the type of ${key}`);
    metadata.set(key, await readValue(cursor, cursor.u32(), key, 0));
  }
  return metadata;
}

async function readTensorInfo(cursor: Cursor, index: number): Promise<GgufTensorInfo> {
  const { path, size: fileSize } = cursor.file;
  const name = await cursor.text('a tensor name');
  if (name === '') throw new LoadError(path, `the name of tensor ${index} is empty`);
  await cursor.ensure(4, `tensor ${name}`);
  const dimensions = cursor.u32();
  if (dimensions < 1 || dimensions > MAX_DIMENSIONS) {
    throw new LoadError(path, `tensor ${name} has ${dimensions} dimensions (1 to ${MAX_DIMENSIONS} are possible)`);
  }
  await cursor.ensure(8 * dimensions + 12, `tensor ${name}`);
  const shape = Array.from({ length: dimensions }, () => cursor.u64());
  // No type takes less than a bit an element.
  const impossible = shape.find((size) => size < 1 || size > fileSize * 8);
  if (impossible !== undefined) throw new LoadError(path, `tensor ${name} has a dimension of size ${impossible}`);
  return { name, shape, type: cursor.u32(), offset: cursor.u64() };
}

const TEXT = 8;
const LIST = 9;

interface NumberType {
  readonly bytes: number;
  readonly read: (view: DataView, offset: number) => number | bigint | boolean;
}

/** By type number. */
const NUMBER_TYPES: Readonly<Record<number, NumberType>> = {
  0: { bytes: 1, read: (view, offset) => view.getUint8(offset) },
  1: { bytes: 1, read: (view, offset) => view.getInt8(offset) },
  2: { bytes: 2, read: (view, offset) => view.getUint16(offset, true) },
  3: { bytes: 2, read: (view, offset) => view.getInt16(offset, true) },
  4: { bytes: 4, read: (view, offset) => view.getUint32(offset, true) },
  5: { bytes: 4, read: (view, offset) => view.getInt32(offset, true) },
  6: { bytes: 4, read: (view, offset) => view.getFloat32(offset, true) },
  7: { bytes: 1, read: (view, offset) => view.getUint8(offset) !== 0 },
  10: { bytes: 8, read: (view, offset) => view.getBigUint64(offset, true) },
  11: { bytes: 8, read: (view, offset) => view.getBigInt64(offset, true) },
  12: { bytes: 8, read: (view, offset) => view.getFloat64(offset, true) },
};

async function readValue(cursor: Cursor, type: number, key: string, depth: number): Promise<unknown> {
  if (type === TEXT) return cursor.text(key);
  if (type === LIST) return readList(cursor, key, depth);
  const { bytes, read } = numberType(cursor, type, key);
  await cursor.ensure(bytes, key);
  return cursor.number(bytes, read);
}

/** Loops that wait only at the window's end: vocabularies are long. */
async function readList(cursor: Cursor, key: string, depth: number): Promise<unknown[]> {
  if (depth >= MAX_DEPTH) throw new LoadError(cursor.file.path, `the lists of ${key} are nested too deeply`);
  await cursor.ensure(12, key);
  const type = cursor.u32();
  const length = cursor.u64();
  const number = type === TEXT || type === LIST ? undefined : numberType(cursor, type, key);
  cursor.fits(length, number?.bytes ?? 8, `elements of ${key}`);
  if (length > MAX_LIST_LENGTH) {
    throw new LoadError(cursor.file.path, `${key} has ${length} elements, which is not supported`);
  }
  const list: unknown[] = [];
  for (let i = 0; i < length; i++) {
    if (number !== undefined) {
      if (!cursor.holds(number.bytes)) await cursor.ensure(number.bytes, key);
      list.push(cursor.number(number.bytes, number.read));
    } else {
      const held = type === TEXT ? cursor.heldText() : undefined;
      list.push(held ?? (await readValue(cursor, type, key, depth + 1)));
    }
  }
  return list;
}

function numberType(cursor: Cursor, type: number, key: string): NumberType {
  const found = NUMBER_TYPES[type];
  if (found !== undefined) return found;
  throw new LoadError(cursor.file.path, `${key} has the unknown metadata type ${type}: the header is damaged`);
}
