/** Opens a GGUF file. */

import { basename } from 'node:path';
import { LoadError } from '../../../errors.js';
import type { BinaryFile } from '../binary-file.js';
import { bindParameters } from '../bind.js';
import type { Checkpoint } from '../checkpoint.js';
import { dequantize } from '../dequantize.js';
import { elementCount } from '../elements.js';
import { fingerprint } from '../fingerprint.js';
import { readGenerationDefaults } from '../generation-defaults.js';
import { Settings } from '../settings.js';
import type { StoredTensor } from '../tensor.js';
import { tensorCheckpoint } from '../tensor-checkpoint.js';
import { ggufArchitecture, ggufFamily } from './architecture.js';
import { ggufEndTokens } from './end-tokens.js';
import { readGgufHeader } from './header.js';
import { ggufNaming } from './naming.js';
import { ggufTensors } from './tensors.js';

const ROPE_FACTORS = 'rope_freqs.weight';
const KNOWN_GLOBALS = new Set(['token_embd.weight', 'output_norm.weight', 'output.weight']);

/** Takes over the open file. Throws LoadError for whatever is wrong with it. */
export async function openGguf(file: BinaryFile): Promise<Checkpoint> {
  const header = await readGgufHeader(file);
  const metadata = new Settings(file.path, header.metadata);
  const tensors = ggufTensors(file, header);
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
      generation: readGenerationDefaults(metadata, GENERATION_KEYS),
      fingerprint: await fingerprint([await file.read(0, Math.min(header.dataStart, file.size))], tensors.values()),
    },
    parameters,
    [file],
  );
}

async function ropeFactors(tensor: StoredTensor | undefined): Promise<Float32Array | undefined> {
  if (tensor === undefined) return undefined;
  const values = new Float32Array(elementCount(tensor.shape));
  dequantize(tensor.type, await tensor.file.read(tensor.offset, tensor.bytes), values);
  return values;
}

/** The keys that convert_hf_to_gguf.py copies from generation_config.json. */
const GENERATION_KEYS = {
  temperature: 'general.sampling.temp',
  topK: 'general.sampling.top_k',
  topP: 'general.sampling.top_p',
  minP: 'general.sampling.min_p',
  repetitionPenalty: 'general.sampling.penalty_repeat',
};
