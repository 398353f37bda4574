/** The tensor list of a GGUF header, checked against the file. */
import { LoadError } from '../../../errors.js';
import type { BinaryFile } from '../binary-file.js';
import { ELEMENT_LAYOUTS, isElementType } from '../elements.js';
import { refuseOverlaps, type StoredTensor, storedTensor } from '../tensor.js';
import type { GgufHeader } from './header.js';

/** enum ggml_type of ggml.h. */
const TYPE_NAMES: Readonly<Record<number, string>> = {
  0: 'F32',
  1: 'F16',
  2: 'Q4_0',
  3: 'Q4_1',
  6: 'Q5_0',
  7: 'Q5_1',
  8: 'Q8_0',
  9: 'Q8_1',
  10: 'Q2_K',
  11: 'Q3_K',
  12: 'Q4_K',
  13: 'Q5_K',
  14: 'Q6_K',
  15: 'Q8_K',
  16: 'IQ2_XXS',
  17: 'IQ2_XS',
  18: 'IQ3_XXS',
  19: 'IQ1_S',
  20: 'IQ4_NL',
  21: 'IQ3_S',
  22: 'IQ2_S',
  23: 'IQ4_XS',
  24: 'I8',
  25: 'I16',
  26: 'I32',
  27: 'I64',
  28: 'F64',
  29: 'IQ1_M',
  30: 'BF16',
  34: 'TQ1_0',
  35: 'TQ2_0',
  39: 'MXFP4',
};

/**
 * Tensors by name, sizes in row-major order.
 * Throws LoadError for types that are not supported, misaligned or overlapping tensors, and data past the end.
 */
export function ggufTensors(file: BinaryFile, header: GgufHeader): Map<string, StoredTensor> {
  const tensors = new Map<string, StoredTensor>();
  for (const { name, shape, type: number, offset } of header.tensors) {
    const type = TYPE_NAMES[number] ?? `number ${number}`;
    if (!isElementType(type)) {
      const supported = Object.keys(ELEMENT_LAYOUTS).join(', ');
      throw new LoadError(file.path, `tensor ${name} has type ${type}, which is not supported (${supported} are)`);
    }
    if (tensors.has(name)) throw new LoadError(file.path, `tensor ${name} is listed twice`);
    if (offset % header.alignment !== 0) {
      throw new LoadError(
        file.path,
        `tensor ${name} starts at ${offset}, which is not a multiple of ${header.alignment}`,
      );
    }
    const place = header.dataStart + offset;
    tensors.set(name, storedTensor(file, { name, type, shape: shape.toReversed(), offset: place }));
  }
  refuseOverlaps(tensors.values());
  return tensors;
}
