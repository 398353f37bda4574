/**
 * The header of a safetensors file: 8 bytes of length, then JSON with the name, type, shape and place of each tensor.
 * Format: https://huggingface.co/docs/safetensors#format
 */
import { LoadError } from '../../../errors.js';
import type { BinaryFile } from '../binary-file.js';
import { ELEMENT_LAYOUTS, isElementType } from '../elements.js';
import { isRecord } from '../settings.js';
import { refuseOverlaps, type StoredTensor, storedTensor } from '../tensor.js';

/** The reference implementation's bound. */
const MAX_HEADER_BYTES = 100_000_000;

export interface SafetensorsFile {
  readonly header: Uint8Array;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
}

/** Throws LoadError for a header that is not one, contradicts the file's length or lists a type that is not supported. */
export async function readSafetensors(file: BinaryFile): Promise<SafetensorsFile> {
  if (file.size < 8) throw new LoadError(file.path, `${file.size} bytes are too few for a safetensors file`);
  const start = await file.read(0, 8);
  const length = Number(new DataView(start.buffer).getBigUint64(0, true));
  if (length > MAX_HEADER_BYTES) {
    throw new LoadError(file.path, `not a safetensors file: its first 8 bytes announce a header of ${length} bytes`);
  }
  if (8 + length > file.size) {
    throw new LoadError(
      file.path,
      `the file is incomplete: its header takes ${length} bytes, but the file ends at ${file.size}; download it again`,
    );
  }
  const header = await file.read(8, length);
  const tensors = new Map<string, StoredTensor>();
  for (const [name, entry] of Object.entries(parseHeader(file, header))) {
    if (name === '__metadata__') continue;
    tensors.set(name, readEntry(file, name, entry, 8 + length));
  }
  refuseOverlaps(tensors.values());
  return { header, tensors };
}

function parseHeader(file: BinaryFile, header: Uint8Array): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(header));
    if (isRecord(value)) return value;
  } catch {
    // Reported below, as is JSON of another kind.
  }
  throw new LoadError(file.path, 'not a safetensors file, or a damaged one: its header is not a JSON object');
}

function readEntry(file: BinaryFile, name: string, entry: unknown, dataStart: number): StoredTensor {
  const damaged = (): never => {
    throw new LoadError(file.path, `damaged header: the entry of tensor ${name} is malformed`);
  };
  if (!isRecord(entry)) return damaged();
  const { dtype, shape, data_offsets: offsets } = entry;
  if (typeof dtype !== 'string' || !isCounts(shape) || !isCounts(offsets)) return damaged();
  const [begin, end] = offsets;
  if (begin === undefined || end === undefined || offsets.length !== 2 || begin > end) return damaged();
  if (!isElementType(dtype) || ELEMENT_LAYOUTS[dtype].blockLength > 1) {
    throw new LoadError(file.path, `tensor ${name} has type ${dtype}, which is not supported (F32, F16, BF16 are)`);
  }
  const tensor = storedTensor(file, { name, type: dtype, shape, offset: dataStart + begin });
  if (tensor.bytes !== end - begin) {
    throw new LoadError(
      file.path,
      `damaged header: tensor ${name} takes ${tensor.bytes} bytes as ${dtype}, but its place has ${end - begin}`,
    );
  }
  return tensor;
}

function isCounts(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0);
}
