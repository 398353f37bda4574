/** Changed copies of the tiny models. */
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSafetensors, type SafetensorsTensors, safetensorsFile } from './safetensors-file.js';

export const TINY_MODELS = new URL('../fixtures/models/', import.meta.url).pathname;

export interface ModelChanges {
  /** Merged into config.json; undefined removes a key. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly tensors?: (tensors: SafetensorsTensors) => SafetensorsTensors;
  /** Other files: contents, or undefined to remove. */
  readonly files?: Readonly<Record<string, string | Uint8Array | undefined>>;
}

/** Copies a tiny model to `target`, changed, and returns `target`. */
export function copyModel(model: string, target: string, changes: ModelChanges = {}): string {
  cpSync(join(TINY_MODELS, model), target, { recursive: true });
  if (changes.config !== undefined) {
    const path = join(target, 'config.json');
    const config = { ...(JSON.parse(readFileSync(path, 'utf8')) as object), ...changes.config };
    writeFileSync(path, JSON.stringify(config));
  }
  if (changes.tensors !== undefined) {
    const path = join(target, 'model.safetensors');
    writeFileSync(path, safetensorsFile(changes.tensors(parseSafetensors(readFileSync(path)))));
  }
  for (const [name, contents] of Object.entries(changes.files ?? {})) {
    if (contents === undefined) rmSync(join(target, name));
    else writeFileSync(join(target, name), contents);
  }
  return target;
}
