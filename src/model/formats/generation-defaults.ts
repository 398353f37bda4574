/** Defaults for sampling that a model brings along, under the names that its format has for them. */
import type { GenerationDefaults } from './checkpoint.js';
import type { Settings } from './settings.js';

/** @param keys the format's name of each default */
export function readGenerationDefaults(
  settings: Settings | undefined,
  keys: Readonly<Record<keyof GenerationDefaults, string>>,
): GenerationDefaults {
  const defaults: { -readonly [name in keyof GenerationDefaults]: number } = {};
  for (const [name, key] of Object.entries(keys)) {
    const value = settings?.optionalNumber(key);
    if (value !== undefined) defaults[name as keyof GenerationDefaults] = value;
  }
  return defaults;
}
