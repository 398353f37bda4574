/**
 * What sets the families apart, as data, and the last checks of an architecture read from a file. Sources: the
 * modeling files of Hugging Face transformers.
 */
import { LoadError } from '../../errors.js';
import type { Activation, Architecture } from '../architecture.js';

export interface Family {
  readonly name: string;
  readonly activation: Activation;
  readonly qkvBias: boolean;
  readonly qkNorm: boolean;
  readonly postNorms: boolean;
  /** Embedding rows are multiplied by sqrt(hiddenSize). */
  readonly scaledEmbedding: boolean;
  /** q, k and v lie in one tensor, gate and up in another. */
  readonly packed: boolean;
}

const LLAMA: Family = {
  name: 'llama',
  activation: 'silu',
  qkvBias: false,
  qkNorm: false,
  postNorms: false,
  scaledEmbedding: false,
  packed: false,
};

export const FAMILIES = {
  llama: LLAMA,
  mistral: { ...LLAMA, name: 'mistral' },
  qwen2: { ...LLAMA, name: 'qwen2', qkvBias: true },
  qwen3: { ...LLAMA, name: 'qwen3', qkNorm: true },
  phi3: { ...LLAMA, name: 'phi3', packed: true },
  gemma3: {
    ...LLAMA,
    name: 'gemma3',
    activation: 'gelu_tanh',
    qkNorm: true,
    postNorms: true,
    scaledEmbedding: true,
  },
} as const satisfies Readonly<Record<string, Family>>;

export type FamilyName = keyof typeof FAMILIES;

/** Throws LoadError when the numbers contradict each other. */
export function checkArchitecture(file: string, architecture: Architecture): void {
  const { numHeads, numKvHeads, headSize, ropes, layers } = architecture;
  if (numHeads % numKvHeads !== 0) {
    throw new LoadError(file, `${numHeads} attention heads cannot share ${numKvHeads} key/value heads evenly`);
  }
  for (const rope of ropes) {
    if (rope.dimensions > headSize || rope.dimensions < 2 || rope.dimensions % 2 !== 0) {
      throw new LoadError(file, `RoPE over ${rope.dimensions} dimensions does not fit heads of size ${headSize}`);
    }
  }
  if (layers.some((layer) => ropes[layer.rope] === undefined)) throw new LoadError(file, 'a layer has no RoPE');
}

/** Throws LoadError for head sizes no model has, before anything of that size is made. */
export function checkHeadSize(file: string, headSize: number): number {
  if (!Number.isInteger(headSize) || headSize < 2 || headSize > 4096) {
    throw new LoadError(file, `heads of size ${headSize} are not supported (2 to 4096)`);
  }
  return headSize;
}
