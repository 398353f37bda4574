/** Defaults for generation and end-of-sequence ids of a Hugging Face model: every file that may hold them counts. */
import type { GenerationDefaults } from '../checkpoint.js';
import { readGenerationDefaults } from '../generation-defaults.js';
import { isRecord, type Settings } from '../settings.js';

export function generationDefaults(generation: Settings | undefined): GenerationDefaults {
  return readGenerationDefaults(generation, {
    temperature: 'temperature',
    topK: 'top_k',
    topP: 'top_p',
    minP: 'min_p',
    repetitionPenalty: 'repetition_penalty',
  });
}

/**
 * Ascending union of eos_token_id of the given settings and of the tokenizer's eos_token.
 * @param tokenizer parsed tokenizer.json
 */
export function endTokens(
  settings: readonly (Settings | undefined)[],
  tokenizer: Settings,
  tokenizerConfig: Settings | undefined,
  vocabSize: number,
): number[] {
  const ends = new Set<number>();
  for (const source of settings) {
    if (source === undefined) continue;
    const value = source.values['eos_token_id'];
    for (const id of Array.isArray(value) ? value : [value ?? undefined]) {
      if (id === undefined) continue;
      if (!Number.isInteger(id) || id < 0 || id >= vocabSize) {
        source.fail('eos_token_id', `holds ${JSON.stringify(id)}, which is not a token of the vocabulary`);
      }
      ends.add(id);
    }
  }
  const id = tokenId(tokenizer, tokenText(tokenizerConfig?.values['eos_token']));
  if (id !== undefined) ends.add(id);
  return [...ends].sort((a, b) => a - b);
}

/** A special token is written as its text or as an object that holds it. */
function tokenText(token: unknown): string | undefined {
  const text = isRecord(token) ? token['content'] : token;
  return typeof text === 'string' ? text : undefined;
}

/** Special tokens are listed with their ids, whether or not the model's vocabulary has them too. */
function tokenId(tokenizer: Settings, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  for (const token of tokenizer.list('added_tokens') ?? []) {
    if (isRecord(token) && token['content'] === text && typeof token['id'] === 'number') return token['id'];
  }
  return undefined;
}
