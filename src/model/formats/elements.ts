/** Element types as they lie in files: plain numbers, and ggml's blocks of 32 quantized weights. */
import type { ElementType } from './checkpoint.js';

interface ElementLayout {
  /** Elements of a block; a row holds whole blocks. */
  readonly blockLength: number;
  readonly blockBytes: number;
}

/** Block sizes as in ggml-common.h: a scale (and a minimum for Q4_1) in fp16, then the quants. */
export const ELEMENT_LAYOUTS: Readonly<Record<ElementType, ElementLayout>> = {
  F32: { blockLength: 1, blockBytes: 4 },
  F16: { blockLength: 1, blockBytes: 2 },
  BF16: { blockLength: 1, blockBytes: 2 },
  Q8_0: { blockLength: 32, blockBytes: 34 },
  Q4_0: { blockLength: 32, blockBytes: 18 },
  Q4_1: { blockLength: 32, blockBytes: 20 },
};

export function isElementType(name: string): name is ElementType {
  return Object.hasOwn(ELEMENT_LAYOUTS, name);
}

/** Bytes of `elements` elements; they must fill whole blocks. */
export function byteLength(type: ElementType, elements: number): number {
  const { blockLength, blockBytes } = ELEMENT_LAYOUTS[type];
  return (elements / blockLength) * blockBytes;
}

/** Number of elements; 1 for a scalar's empty shape. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}
