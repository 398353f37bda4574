/** The tensor list of a GGUF header, checked against the file. */
import { GGMLQuantizationType, type GGUFTensorInfo } from '@huggingface/gguf';
import { LoadError } from '../../../errors.js';
import type { BinaryFile } from '../binary-file.js';
import { ELEMENT_LAYOUTS, isElementType } from '../elements.js';
import { refuseOverlaps, type StoredTensor, storedTensor } from '../tensor.js';

/**
 * Tensors by name, sizes in row-major order (GGUF lists the fastest first).
 * Throws LoadError for types that are not supported, misaligned or overlapping tensors, and data past the end.
 */
export function ggufTensors(
  file: BinaryFile,
  infos: readonly GGUFTensorInfo[],
  dataStart: number,
  alignment: number,
): Map<string, StoredTensor> {
  const tensors = new Map<string, StoredTensor>();
  for (const { name, shape, dtype, offset } of infos) {
    const type = GGMLQuantizationType[dtype] ?? `number ${dtype}`;
    if (!isElementType(type)) {
      const supported = Object.keys(ELEMENT_LAYOUTS).join(', ');
      throw new LoadError(file.path, `tensor ${name} has type ${type}, which is not supported (${supported} are)`);
    }
    if (tensors.has(name)) throw new LoadError(file.path, `tensor ${name} is listed twice`);
    const start = Number(offset);
    if (start % alignment !== 0) {
      throw new LoadError(file.path, `tensor ${name} starts at ${start}, which is not a multiple of ${alignment}`);
    }
    const sizes = shape.map(Number).reverse();
    tensors.set(name, storedTensor(file, { name, type, shape: sizes, offset: dataStart + start }));
  }
  refuseOverlaps(tensors.values());
  return tensors;
}
