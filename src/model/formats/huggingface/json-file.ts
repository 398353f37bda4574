/** Text and JSON files of a model directory. */
import { readFile, stat } from 'node:fs/promises';
import { LoadError } from '../../../errors.js';
import { asLoadError } from '../binary-file.js';
import { isRecord, Settings } from '../settings.js';

/** Tokenizers of 256,000 words take about 35 MB. */
const MAX_TEXT_BYTES = 256 << 20;

export interface TextFile {
  readonly path: string;
  readonly text: string;
}

/** Undefined when there is no such file; throws LoadError when it cannot be read. */
export async function readText(path: string): Promise<TextFile | undefined> {
  try {
    const { size } = await stat(path);
    if (size > MAX_TEXT_BYTES) throw new LoadError(path, `${size} bytes are too many for a settings file`);
    return { path, text: await readFile(path, 'utf8') };
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw asLoadError(path, error);
  }
}

/** The file's object. Throws LoadError when it is not JSON or not an object. */
export function parseObject(file: TextFile): Settings {
  let value: unknown;
  try {
    value = JSON.parse(file.text);
  } catch (error) {
    const pointer = file.text.startsWith('version https://git-lfs');
    const reason = error instanceof Error ? error.message.replaceAll(/\s+/g, ' ') : String(error);
    throw new LoadError(
      file.path,
      pointer ? 'a Git LFS pointer; fetch the file with "git lfs pull"' : `not JSON (${reason})`,
    );
  }
  if (!isRecord(value)) throw new LoadError(file.path, 'not a JSON object');
  return new Settings(file.path, value);
}
