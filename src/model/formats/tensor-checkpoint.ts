/** The checkpoint of formats whose parameters are tensors in binary files; see `bind.ts` for where they come from. */
import { LoadError } from '../../errors.js';
import type { Architecture, ParameterName } from '../architecture.js';
import type { BinaryFile } from './binary-file.js';
import type { StoredParameter } from './bind.js';
import type { Checkpoint, GenerationDefaults, ParameterInfo, TokenizerSource } from './checkpoint.js';
import { dequantize } from './dequantize.js';
import { ELEMENT_LAYOUTS, elementCount } from './elements.js';

/** Stored bytes that are in memory at once while a parameter is dequantized, about. */
const CHUNK_BYTES = 1 << 20;

/** What the format's reader found out; everything a checkpoint is besides its parameters. */
export interface CheckpointFacts {
  readonly path: string;
  readonly format: Checkpoint['format'];
  readonly name: string;
  readonly architecture: Architecture;
  readonly tokenizer: TokenizerSource;
  readonly endTokens: readonly number[];
  readonly generation: GenerationDefaults;
  readonly fingerprint: string;
}

export function tensorCheckpoint(
  facts: CheckpointFacts,
  parameters: ReadonlyMap<ParameterName, StoredParameter>,
  files: readonly BinaryFile[],
): Checkpoint {
  const find = (name: ParameterName): StoredParameter => {
    const parameter = parameters.get(name);
    if (parameter === undefined) throw new LoadError(facts.path, `the model has no parameter ${name}`);
    return parameter;
  };
  return {
    ...facts,
    info: (name) => describe(parameters.get(name)),
    readFloat32: async (name) => readFloat32(find(name)),
    readRaw: async (name) => {
      const parameter = find(name);
      if (!parameter.addOne) return readStored(parameter);
      const values = await readFloat32(parameter);
      return new Uint8Array(values.buffer);
    },
    close: async () => {
      await Promise.all(files.map((file) => file.close()));
    },
  };
}

/** A norm that is corrected by 1 no longer has its stored bytes: it is presented as F32. */
function describe(parameter: StoredParameter | undefined): ParameterInfo | undefined {
  if (parameter === undefined) return undefined;
  return { shape: parameter.shape, type: parameter.addOne ? 'F32' : parameter.tensor.type };
}

async function readFloat32(parameter: StoredParameter): Promise<Float32Array> {
  const { file, type } = parameter.tensor;
  const values = new Float32Array(elementCount(parameter.shape));
  if (parameter.interleaved !== undefined) {
    dequantize(type, await readStored(parameter), values);
  } else {
    const { blockLength, blockBytes } = ELEMENT_LAYOUTS[type];
    const blocks = Math.ceil(CHUNK_BYTES / blockBytes);
    const chunk = new Uint8Array(Math.min(blocks * blockBytes, parameter.bytes));
    for (let done = 0; done < parameter.bytes; done += chunk.length) {
      const bytes = chunk.subarray(0, Math.min(chunk.length, parameter.bytes - done));
      await file.readInto(bytes, parameter.offset + done);
      const first = (done / blockBytes) * blockLength;
      dequantize(type, bytes, values.subarray(first, first + (bytes.length / blockBytes) * blockLength));
    }
  }
  if (parameter.addOne) for (let i = 0; i < values.length; i++) values[i] = values[i]! + 1;
  return values;
}

async function readStored(parameter: StoredParameter): Promise<Uint8Array> {
  const bytes = await parameter.tensor.file.read(parameter.offset, parameter.bytes);
  if (parameter.interleaved === undefined) return bytes;
  const { headSize, rotary } = parameter.interleaved;
  return toHalfSplit(bytes, bytes.length / parameter.shape[0]!, headSize, rotary);
}

/**
 * Rows of interleaved RoPE pairs (2i, 2i+1) to half-split pairs (i, i + rotary/2), within each head; rows from `rotary`
 * on stay. Undoes `permute` of llama.cpp's convert_hf_to_gguf.py.
 */
function toHalfSplit(bytes: Uint8Array, rowBytes: number, headSize: number, rotary: number): Uint8Array {
  const out = new Uint8Array(bytes.length);
  const rows = bytes.length / rowBytes;
  for (let row = 0; row < rows; row++) {
    const inHead = row % headSize;
    const target = inHead >= rotary ? row : row - inHead + (inHead % 2) * (rotary / 2) + (inHead >> 1);
    out.set(bytes.subarray(row * rowBytes, (row + 1) * rowBytes), target * rowBytes);
  }
  return out;
}
