/**
 * What is taken from @huggingface/tokenizers, the library below @huggingface/transformers: normalizers, and the
 * translation of tokenizer.json's regular expressions to JavaScript's. It is imported directly because transformers
 * brings onnxruntime-web and sharp into the process (170 to 260 ms of start-up against 6 ms). Merging is our own: the
 * library's takes 10 s for a megabyte of spaces, and reads special tokens in any text.
 */
import * as library from '@huggingface/tokenizers';
import { UserError } from '../../errors.js';

// The library's declarations import without file endings, which Node's resolution does not follow.
const { SequenceNormalizer, SplitPreTokenizer } = library as unknown as {
  readonly SequenceNormalizer: new (config: { normalizers: unknown[] }) => { normalize(text: string): string };
  readonly SplitPreTokenizer: new (config: { pattern: unknown }) => { readonly pattern: RegExp | null };
};

/** A normalizer of tokenizer.json; null leaves text as it is. Throws UserError for one that is not known. */
export function compileNormalizer(json: unknown): (text: string) => string {
  if (json === null || json === undefined) return (text) => text;
  try {
    const sequence = new SequenceNormalizer({ normalizers: [json] });
    return (text) => sequence.normalize(text);
  } catch (error) {
    throw new UserError(`tokenizer: ${(error as Error).message}`);
  }
}

/** A pattern of tokenizer.json, {Regex} in Oniguruma's syntax or {String}. Throws UserError when it does not compile. */
export function compilePattern(pattern: unknown): RegExp {
  try {
    const compiled = new SplitPreTokenizer({ pattern }).pattern;
    if (compiled !== null) return compiled;
  } catch (error) {
    throw new UserError(
      `tokenizer: the pattern ${JSON.stringify(pattern)} is not supported: ${(error as Error).message}`,
    );
  }
  throw new UserError(`tokenizer: the pattern ${JSON.stringify(pattern)} is neither Regex nor String`);
}
