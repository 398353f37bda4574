/** End-of-generation ids of a GGUF vocabulary. */
import type { Settings } from '../settings.js';

const CONTROL = 3;
/**
 * Control tokens that end a turn or a text whatever the metadata says: many files name only one of two.
 * From llama_vocab::impl::load in src/llama-vocab.cpp of llama.cpp.
 */
const END_TEXTS: ReadonlySet<unknown> = new Set([
  '<|endoftext|>',
  '<|end_of_text|>',
  '<|eot_id|>',
  '<|eom_id|>',
  '<|im_end|>',
  '<|end|>',
  '<end_of_turn>',
  '<EOT>',
]);

/** Ascending union of the eos, eot and eom ids and of the control tokens above. */
export function ggufEndTokens(metadata: Settings): number[] {
  const tokens = metadata.list('tokenizer.ggml.tokens') ?? [];
  const types = metadata.list('tokenizer.ggml.token_type') ?? [];
  const ends = new Set<number>();
  for (const kind of ['eos', 'eot', 'eom']) {
    const key = `tokenizer.ggml.${kind}_token_id`;
    const id = metadata.optionalNumber(key);
    if (id === undefined) continue;
    if (!Number.isInteger(id) || id < 0 || id >= tokens.length)
      metadata.fail(key, `is ${id}, which is not in the vocabulary`);
    ends.add(id);
  }
  for (let id = 0; id < tokens.length; id++) {
    if (types[id] === CONTROL && END_TEXTS.has(tokens[id])) ends.add(id);
  }
  return [...ends].sort((a, b) => a - b);
}
