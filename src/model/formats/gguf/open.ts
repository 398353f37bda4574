/** Opens a GGUF file. Values are parsed by @huggingface/gguf, after `scan.ts` has proved that the header is whole. */

import { basename } from 'node:path';
import { LoadError } from '../../../errors.js';
import type { BinaryFile } from '../binary-file.js';
import { bindParameters } from '../bind.js';
import type { Checkpoint, GenerationDefaults } from '../checkpoint.js';
import { dequantize } from '../dequantize.js';
import { elementCount } from '../elements.js';
import { fingerprint } from '../fingerprint.js';
import { Settings } from '../settings.js';
import type { StoredTensor } from '../tensor.js';
import { tensorCheckpoint } from '../tensor-checkpoint.js';
import { ggufArchitecture, ggufFamily } from './architecture.js';
import { ggufEndTokens } from './end-tokens.js';
import { ggufNaming } from './naming.js';
import { scanGgufHeader } from './scan.js';

const ROPE_FACTORS = 'rope_freqs.weight';
const KNOWN_GLOBALS = new Set(['token_embd.weight', 'output_norm.weight', 'output.weight']);

/** Takes over the open file. Throws LoadError for whatever is wrong with it. */
export async function openGguf(file: BinaryFile): Promise<Checkpoint> {
  await scanGgufHeader(file);
  const { metadata, tensors, dataStart } = await parse(file);
  const factors = await ropeFactors(tensors.get(ROPE_FACTORS));
  const architecture = ggufArchitecture(metadata, tensors, factors);
  const family = ggufFamily(metadata);
  const parameters = bindParameters(file.path, architecture, tensors, ggufNaming(family));
  for (const name of tensors.keys()) {
    if (name.startsWith('blk.') || KNOWN_GLOBALS.has(name) || (name === ROPE_FACTORS && family === 'llama')) continue;
    throw new LoadError(file.path, `tensor ${name} is not supported in a ${family} model`);
  }
  return tensorCheckpoint(
    {
      path: file.path,
      format: 'gguf',
      name: metadata.string('general.name', basename(file.path, '.gguf')),
      architecture,
      tokenizer: { kind: 'gguf', metadata: metadata.values },
      endTokens: ggufEndTokens(metadata),
      generation: generationDefaults(metadata),
      fingerprint: await fingerprint([await file.read(0, dataStart)], tensors.values()),
    },
    parameters,
    [file],
  );
}

async function parse(
  file: BinaryFile,
): Promise<{ metadata: Settings; tensors: Map<string, StoredTensor>; dataStart: number }> {
  const [{ gguf }, { ggufTensors }] = await Promise.all([import('@huggingface/gguf'), import('./tensors.js')]);
  let parsed: Awaited<ReturnType<typeof gguf>>;
  try {
    parsed = await gguf(file.path, { allowLocalFile: true });
  } catch (error) {
    throw new LoadError(file.path, `damaged GGUF header (${error instanceof Error ? error.message : String(error)})`);
  }
  const metadata = new Settings(file.path, parsed.metadata as unknown as Record<string, unknown>);
  const alignment = metadata.integer('general.alignment', 32);
  const dataStart = Number(parsed.tensorDataOffset);
  return { metadata, tensors: ggufTensors(file, parsed.tensorInfos, dataStart, alignment), dataStart };
}

async function ropeFactors(tensor: StoredTensor | undefined): Promise<Float32Array | undefined> {
  if (tensor === undefined) return undefined;
  const values = new Float32Array(elementCount(tensor.shape));
  dequantize(tensor.type, await tensor.file.read(tensor.offset, tensor.bytes), values);
  return values;
}

/** The general.sampling keys that convert_hf_to_gguf.py copies from generation_config.json. */
function generationDefaults(metadata: Settings): GenerationDefaults {
  const temperature = metadata.optionalNumber('general.sampling.temp');
  const topK = metadata.optionalNumber('general.sampling.top_k');
  const topP = metadata.optionalNumber('general.sampling.top_p');
  const minP = metadata.optionalNumber('general.sampling.min_p');
  const repetitionPenalty = metadata.optionalNumber('general.sampling.penalty_repeat');
  return {
    ...(temperature !== undefined && { temperature }),
    ...(topK !== undefined && { topK }),
    ...(topP !== undefined && { topP }),
    ...(minP !== undefined && { minP }),
    ...(repetitionPenalty !== undefined && { repetitionPenalty }),
  };
}
