/** Tensors as a file stores them, and the checks that every format's tensor list must pass. */
import { LoadError } from '../../errors.js';
import type { BinaryFile } from './binary-file.js';
import type { ElementType } from './checkpoint.js';
import { byteLength, ELEMENT_LAYOUTS, elementCount } from './elements.js';

export interface StoredTensor {
  readonly file: BinaryFile;
  readonly name: string;
  readonly type: ElementType;
  /** Row-major: the last size is the one whose elements lie side by side. */
  readonly shape: readonly number[];
  /** First byte, from the file's start. */
  readonly offset: number;
  readonly bytes: number;
}

/**
 * A tensor whose bytes are known to lie within its file.
 * Throws LoadError for empty dimensions, rows that end within a block, and data past the end of the file.
 */
export function storedTensor(
  file: BinaryFile,
  tensor: {
    readonly name: string;
    readonly type: ElementType;
    readonly shape: readonly number[];
    readonly offset: number;
  },
): StoredTensor {
  const { name, type, shape, offset } = tensor;
  if (shape.some((size) => !Number.isSafeInteger(size) || size < 1)) {
    throw new LoadError(file.path, `tensor ${name} has the impossible shape ${shapeText(shape)}`);
  }
  const { blockLength } = ELEMENT_LAYOUTS[type];
  if ((shape.at(-1) ?? 1) % blockLength !== 0) {
    throw new LoadError(
      file.path,
      `tensor ${name} of shape ${shapeText(shape)} has rows that are not whole blocks of ${blockLength} as ${type} needs`,
    );
  }
  const bytes = byteLength(type, elementCount(shape));
  const end = offset + bytes;
  if (!(offset >= 0 && end <= file.size)) {
    throw new LoadError(
      file.path,
      `the file is incomplete: tensor ${name} ends at byte ${end}, the file at ${file.size}; download it again`,
    );
  }
  return { file, name, type, shape, offset, bytes };
}

/** Throws LoadError when two tensors of one file share bytes. */
export function refuseOverlaps(tensors: Iterable<StoredTensor>): void {
  const sorted = [...tensors].sort((a, b) => a.offset - b.offset);
  for (let i = 1; i < sorted.length; i++) {
    const previous = sorted[i - 1]!;
    const tensor = sorted[i]!;
    if (previous.offset + previous.bytes > tensor.offset) {
      throw new LoadError(tensor.file.path, `tensors ${previous.name} and ${tensor.name} overlap`);
    }
  }
}

export function shapeText(shape: readonly number[]): string {
  return `[${shape.join(', ')}]`;
}
