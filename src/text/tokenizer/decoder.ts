/** Reads the `decoder` of a tokenizer.json: which bytes a token of the vocabulary stands for. */
import { z } from 'zod';
import { UserError } from '../../errors.js';
import { bytesOfAlphabet } from './byte-alphabet.js';

export interface ByteDecoder {
  bytes(token: string): Uint8Array;
  /** One space at the start of a text is dropped. */
  readonly dropsFirstSpace: boolean;
}

const step = z.discriminatedUnion('type', [
  z.object({ type: z.literal('Sequence'), decoders: z.array(z.unknown()) }),
  z.object({ type: z.literal('ByteLevel') }),
  z.object({ type: z.literal('ByteFallback') }),
  z.object({ type: z.literal('Fuse') }),
  z.object({ type: z.literal('Replace'), pattern: z.object({ String: z.string() }), content: z.string() }),
  z.object({ type: z.literal('Strip'), content: z.string(), start: z.number(), stop: z.number() }),
  z.object({
    type: z.literal('Metaspace'),
    replacement: z.string().default('▁'),
    prepend_scheme: z.enum(['always', 'first', 'never']).optional(),
    add_prefix_space: z.boolean().default(true),
  }),
]);

const BYTE_TOKEN = /^<0x([0-9A-Fa-f]{2})>$/;
const utf8 = new TextEncoder();

/** Throws UserError for decoders that are not known, or that no rule of bytes per token can express. */
export function compileByteDecoder(json: unknown, byteLevel: boolean): ByteDecoder {
  const steps = flatten(json);
  const isBytes = byteLevel || steps.some((config) => config.type === 'ByteLevel');
  const fallback = steps.some((config) => config.type === 'ByteFallback');
  const replacements = steps.flatMap((config) => {
    if (config.type === 'Replace') return [{ from: config.pattern.String, to: config.content }];
    return config.type === 'Metaspace' ? [{ from: config.replacement, to: ' ' }] : [];
  });
  return {
    dropsFirstSpace: steps.some(dropsSpace),
    bytes(token) {
      if (isBytes) return bytesOfAlphabet(token) ?? utf8.encode(token);
      const byte = fallback ? BYTE_TOKEN.exec(token)?.[1] : undefined;
      if (byte !== undefined) return Uint8Array.of(Number.parseInt(byte, 16));
      return utf8.encode(replacements.reduce((text, { from, to }) => text.replaceAll(from, () => to), token));
    },
  };
}

type Step = Exclude<z.infer<typeof step>, { type: 'Sequence' }>;

function flatten(json: unknown): Step[] {
  if (json === null || json === undefined) return [];
  const parsed = step.safeParse(json);
  if (!parsed.success) throw new UserError(`tokenizer: the decoder ${JSON.stringify(json)} is not supported`);
  return parsed.data.type === 'Sequence' ? parsed.data.decoders.flatMap(flatten) : [parsed.data];
}

function dropsSpace(config: Step): boolean {
  switch (config.type) {
    case 'Strip':
      if (config.content !== ' ' || config.start > 1 || config.stop !== 0) {
        throw new UserError(`tokenizer: the decoder ${JSON.stringify(config)} is not supported`);
      }
      return config.start === 1;
    case 'Metaspace':
      return (config.prepend_scheme ?? (config.add_prefix_space ? 'always' : 'never')) !== 'never';
    default:
      return false;
  }
}
