/**
 * The tiny models made wide enough for the rotated 8-bit lowering, with numbers drawn anew: biases, norms of heads and packed
 * matrices are among them.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { toFloat16 } from '../../src/model/float16.js';
import { copyModel, TINY_MODELS } from './model-directory.js';
import { mulberry32 } from './random.js';
import type { SafetensorsTensor, SafetensorsTensors } from './safetensors-file.js';

/** Dimensions of the tiny models (hidden, intermediate, head and packed sizes) and what they become. */
const WIDER: Readonly<Record<number, number>> = { 16: 64, 32: 128, 64: 256, 96: 512, 128: 512, 192: 1024 };

/**
 * Writes the wider model into `directory` and returns its path.
 * @param uneven whether some channels of keys are much larger than others, as trained models have them
 */
export function widerModel(name: string, directory: string, uneven = false): string {
  const { head_dim } = JSON.parse(readFileSync(join(TINY_MODELS, name, 'config.json'), 'utf8')) as {
    head_dim?: number;
  };
  const config = { hidden_size: 256, intermediate_size: 512, ...(head_dim && { head_dim: 64 }) };
  const tensors = (narrow: SafetensorsTensors) => widen(narrow, uneven);
  return copyModel(name, join(directory, uneven ? `${name}-uneven` : name), { config, tensors });
}

/** Every 64 rows are a head of keys in the models whose keys have a tensor of their own. */
const KEY_TENSOR = /\bk_(proj|norm)\b/;
const LARGE_CHANNEL = 5;

function widen(tensors: SafetensorsTensors, uneven: boolean): SafetensorsTensors {
  const random = mulberry32(7);
  const draw = (name: string, narrow: readonly number[]): SafetensorsTensor => {
    const shape = narrow.map((size) => WIDER[size] ?? size);
    const mean = name.includes('norm') ? 1 : 0;
    const isProduct = shape.length === 2 && !name.includes('embed');
    const range = mean === 1 ? 1 : isProduct ? 4 / Math.sqrt(shape[1]!) : 2;
    const count = shape.reduce((a, b) => a * b, 1);
    const rowLength = shape[1] ?? 1;
    const values = Float32Array.from({ length: count }, (_, i) => {
      const large = uneven && KEY_TENSOR.test(name) && Math.floor(i / rowLength) % 64 === LARGE_CHANNEL;
      return (mean + (random() - 0.5) * range) * (large ? 30 : 1);
    });
    return { dtype: 'F16', shape, data: new Uint8Array(toFloat16(values).buffer) };
  };
  return Object.fromEntries(Object.entries(tensors).map(([name, { shape }]) => [name, draw(name, shape)]));
}
