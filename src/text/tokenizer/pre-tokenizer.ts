/**
 * Reads the `pre_tokenizer` of a tokenizer.json: how text is cut into the pieces that merges never cross. Turning bytes
 * into the alphabet of byte-level vocabularies is left out; `symbols.ts` works on the bytes themselves.
 */
import { z } from 'zod';
import { UserError } from '../../errors.js';
import { compilePattern } from './huggingface.js';
import { type SplitBehavior, splitByPattern } from './split.js';

/** Cuts a text into pieces; `first` says that it begins the whole text. */
export type PreTokenizer = (text: string, first: boolean) => string[];

/** GPT-2's pattern, which ByteLevel uses (huggingface/tokenizers, byte_level.rs). */
export const GPT2_PATTERN = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

const ASCII_PUNCTUATION = '!-/:-@\\[-`{-~';
const behavior = z.enum(['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous']);
const step = z.discriminatedUnion('type', [
  z.object({ type: z.literal('Sequence'), pretokenizers: z.array(z.unknown()) }),
  z.object({
    type: z.literal('ByteLevel'),
    add_prefix_space: z.boolean().default(false),
    use_regex: z.boolean().default(true),
  }),
  z.object({ type: z.literal('Split'), pattern: z.unknown(), behavior, invert: z.boolean().default(false) }),
  z.object({ type: z.literal('Digits'), individual_digits: z.boolean().default(false) }),
  z.object({ type: z.literal('Punctuation'), behavior: behavior.default('Isolated') }),
  z.object({ type: z.literal('WhitespaceSplit') }),
  z.object({ type: z.literal('Whitespace') }),
  z.object({
    type: z.literal('Metaspace'),
    replacement: z.string().default('▁'),
    prepend_scheme: z.enum(['always', 'first', 'never']).optional(),
    add_prefix_space: z.boolean().default(true),
    split: z.boolean().default(true),
  }),
]);

/** Whether the vocabulary is written in the byte-level alphabet. */
export function isByteLevel(json: unknown): boolean {
  const type = typeOf(json);
  if (type !== 'Sequence') return type === 'ByteLevel';
  return parse(json, 'Sequence').pretokenizers.some(isByteLevel);
}

/** Throws UserError, naming the part that is not known. */
export function compilePreTokenizer(json: unknown): PreTokenizer {
  if (json === null || json === undefined) return (text) => [text];
  const config = parse(json, typeOf(json));
  switch (config.type) {
    case 'Sequence':
      return sequence(config.pretokenizers);
    case 'Split':
      return splitter(config.pattern, config.behavior, config.invert);
    case 'Digits':
      return splitter({ Regex: '\\p{N}' }, config.individual_digits ? 'Isolated' : 'Contiguous');
    case 'Punctuation':
      return splitter({ Regex: `[\\p{P}${ASCII_PUNCTUATION}]` }, config.behavior);
    case 'WhitespaceSplit':
      return splitter({ Regex: '\\s' }, 'Removed');
    case 'Whitespace':
      return splitter({ Regex: '\\w+|[^\\w\\s]+' }, 'Removed', true);
    case 'ByteLevel': {
      const split = config.use_regex ? splitter({ Regex: GPT2_PATTERN }, 'Isolated') : (text: string) => [text];
      const spaced = (text: string): string => (config.add_prefix_space && !text.startsWith(' ') ? ` ${text}` : text);
      return (text, first) => split(spaced(text), first);
    }
    case 'Metaspace':
      return metaspace(
        config.replacement,
        config.prepend_scheme ?? (config.add_prefix_space ? 'always' : 'never'),
        config.split,
      );
  }
}

function sequence(steps: readonly unknown[]): PreTokenizer {
  if (steps.slice(0, -1).some(isByteLevel))
    throw new UserError('tokenizer: a ByteLevel pre-tokenizer must be the last one');
  const compiled = steps.filter((json) => !changesNothing(json)).map(compilePreTokenizer);
  return (text, first) => {
    let pieces = [text];
    for (const split of compiled) {
      const cut: string[] = [];
      pieces.forEach((piece, i) => {
        for (const part of split(piece, first && i === 0)) cut.push(part);
      });
      pieces = cut;
    }
    return pieces;
  };
}

function changesNothing(json: unknown): boolean {
  if (typeOf(json) !== 'ByteLevel') return false;
  const config = parse(json, 'ByteLevel');
  return !config.use_regex && !config.add_prefix_space;
}

function splitter(pattern: unknown, how: SplitBehavior, invert = false): PreTokenizer {
  const compiled = compilePattern(pattern);
  return (text) => splitByPattern(text, compiled, how, invert);
}

function metaspace(mark: string, prepend: 'always' | 'first' | 'never', split: boolean): PreTokenizer {
  const words = compilePattern({ String: mark });
  return (text, first) => {
    let marked = text.replaceAll(' ', mark);
    if ((prepend === 'always' || (prepend === 'first' && first)) && !marked.startsWith(mark)) marked = mark + marked;
    return split ? splitByPattern(marked, words, 'MergedWithNext', false) : [marked];
  };
}

function typeOf(json: unknown): unknown {
  return json !== null && typeof json === 'object' && 'type' in json ? json.type : undefined;
}

type Step = z.infer<typeof step>;

function parse<T extends Step['type']>(json: unknown, type: T): Extract<Step, { type: T }>;
function parse(json: unknown, type: unknown): Step;
function parse(json: unknown, type: unknown): Step {
  const parsed = step.safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new UserError(
    issue?.path[0] === 'type' || type === undefined
      ? `tokenizer: the pre-tokenizer ${JSON.stringify(type)} is not known`
      : `tokenizer: the pre-tokenizer ${JSON.stringify(type)}: ${issue?.path.join('.')}: ${issue?.message}`,
  );
}
