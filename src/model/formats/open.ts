/** Opens a checkpoint of any format that is known. */
import { stat } from 'node:fs/promises';
import { LoadError } from '../../errors.js';
import { asLoadError, BinaryFile } from './binary-file.js';
import type { Checkpoint } from './checkpoint.js';
import { openGguf } from './gguf/open.js';
import { openHuggingface } from './huggingface/open.js';
import { refuseImpostors } from './impostors.js';

/**
 * Opens a GGUF file, or a Hugging Face directory with config.json, tokenizer.json and safetensors. Only headers are
 * read; every parameter's name, shape and place in the file is checked. Close it when the parameters are read.
 * Throws LoadError, of one line with file and fault.
 */
export async function openCheckpoint(path: string): Promise<Checkpoint> {
  if (await isDirectory(path)) return openHuggingface(path);
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
