/** The parts of a Hugging Face tokenizer.json (and of what GGUF metadata is turned into) that are used, checked. */
import { z } from 'zod';
import { UserError } from '../../errors.js';

const added = z.object({
  id: z.number().int().nonnegative(),
  content: z.string(),
  special: z.boolean().default(false),
  normalized: z.boolean().optional(),
  lstrip: z.boolean().default(false),
  rstrip: z.boolean().default(false),
  single_word: z.boolean().default(false),
});

const model = z.object({
  type: z.string().default('BPE'),
  // Large tables are checked while they are read.
  vocab: z.custom<Readonly<Record<string, number>>>((value) => typeof value === 'object' && value !== null),
  merges: z.custom<readonly (string | readonly [string, string])[]>(Array.isArray).default([]),
  /**
   * Not of tokenizer.json: SentencePiece's BPE has scores of tokens in place of merges. A pair merges when it is a
   * token, the highest score first.
   */
  scores: z.custom<readonly number[]>(Array.isArray).optional(),
  unk_token: z.string().nullish(),
  fuse_unk: z.boolean().default(false),
  byte_fallback: z.boolean().default(false),
  ignore_merges: z.boolean().default(false),
  continuing_subword_prefix: z.string().nullish(),
  end_of_word_suffix: z.string().nullish(),
});

const tokenizer = z.object({
  added_tokens: z.array(added).default([]),
  normalizer: z.unknown(),
  pre_tokenizer: z.unknown(),
  post_processor: z.unknown(),
  decoder: z.unknown(),
  model,
});

export type TokenizerJson = z.infer<typeof tokenizer>;

/** Throws UserError naming the part that is missing or of the wrong kind. */
export function parseTokenizerJson(json: unknown): TokenizerJson {
  const parsed = tokenizer.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new UserError(`tokenizer: ${['tokenizer.json', ...(issue?.path ?? [])].join('.')}: ${issue?.message}`);
  }
  const { type, continuing_subword_prefix, end_of_word_suffix } = parsed.data.model;
  if (type !== 'BPE')
    throw new UserError(`tokenizer: the model ${JSON.stringify(type)} is not supported, only "BPE" is`);
  if (continuing_subword_prefix || end_of_word_suffix) {
    throw new UserError('tokenizer: continuing_subword_prefix and end_of_word_suffix are not supported');
  }
  return parsed.data;
}

const specialToken = z.object({ SpecialToken: z.object({ id: z.string() }) });
const processor = z.discriminatedUnion('type', [
  z.object({ type: z.literal('ByteLevel') }),
  z.object({ type: z.literal('Sequence'), processors: z.array(z.unknown()) }),
  z.object({
    type: z.literal('TemplateProcessing'),
    single: z.array(z.union([specialToken, z.object({ Sequence: z.unknown() })])),
  }),
  z.object({
    type: z.enum(['BertProcessing', 'RobertaProcessing']),
    cls: z.tuple([z.string(), z.number()]),
    sep: z.tuple([z.string(), z.number()]),
  }),
]);

/** The texts of the special tokens that a `post_processor` puts before and after one text. */
export function specialsAround(json: unknown): { readonly before: string[]; readonly after: string[] } {
  if (json === null || json === undefined) return { before: [], after: [] };
  const parsed = processor.safeParse(json);
  if (!parsed.success) throw new UserError(`tokenizer: the post-processor ${JSON.stringify(json)} is not known`);
  const config = parsed.data;
  switch (config.type) {
    case 'ByteLevel':
      return { before: [], after: [] };
    case 'Sequence': {
      const parts = config.processors.map(specialsAround);
      return {
        before: parts.toReversed().flatMap((part) => part.before),
        after: parts.flatMap((part) => part.after),
      };
    }
    case 'TemplateProcessing': {
      const at = config.single.findIndex((item) => 'Sequence' in item);
      const texts = (items: typeof config.single) =>
        items.flatMap((item) => ('SpecialToken' in item ? [item.SpecialToken.id] : []));
      return { before: texts(config.single.slice(0, at)), after: texts(config.single.slice(at + 1)) };
    }
    default:
      return { before: [config.cls[0]], after: [config.sep[0]] };
  }
}

/** tokenizer_config.json writes a special token as its text or as an object with `content`. */
export function tokenText(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (value === null || typeof value !== 'object' || !('content' in value)) return undefined;
  return typeof value.content === 'string' ? value.content : undefined;
}
