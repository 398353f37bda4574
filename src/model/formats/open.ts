/** Opens a checkpoint of any format that is known. */
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { LoadError } from '../../errors.js';
import { asLoadError, BinaryFile } from './binary-file.js';
import type { Checkpoint } from './checkpoint.js';
import { GENAI_CONFIG, openGenai } from './genai/open.js';
import { openGguf } from './gguf/open.js';
import { openHuggingface } from './huggingface/open.js';
import { refuseImpostors } from './impostors.js';

/**
 * Opens a GGUF file, a Hugging Face directory with config.json, tokenizer.json and safetensors, or an onnxruntime-genai
 * export with genai_config.json. Only headers are read; every parameter's name, shape and place in the file is checked.
 * Close it when the parameters are read. Throws LoadError, of one line with file and fault.
 */
export async function openCheckpoint(path: string): Promise<Checkpoint> {
  if (await isDirectory(path)) {
    return existsSync(join(path, GENAI_CONFIG)) ? openGenai(path) : openHuggingface(path);
  }
  const file = await BinaryFile.open(path);
  try {
    await refuseImpostors(file);
    if (path.endsWith('.safetensors')) {
      throw new LoadError(path, 'safetensors need their config.json and tokenizer.json; give the directory instead');
    }
    return await openGguf(file);
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    throw asLoadError(path, error);
  }
}
