/** The content of a message: a text, or parts of which only texts are taken. */
import { z } from 'zod';
import { clip, invalid } from '../errors.js';

/** Types of parts that hold a text, and under which key. */
const textKeys: Readonly<Record<string, string>> = {
  text: 'text',
  input_text: 'text',
  output_text: 'text',
  refusal: 'refusal',
};

/** Other parts pass here, to be refused with a message that says what they are. */
const part = z.looseObject({ type: z.string() }).meta({
  oneOf: Object.entries(textKeys).map(([type, key]) => ({
    type: 'object',
    properties: { type: { const: type }, [key]: { type: 'string' } },
    required: ['type', key],
  })),
});

export const content = z.union([z.string(), z.array(part)], {
  error: 'must be a string or an array of parts such as {"type":"text","text":"..."}',
});

/** The text of a content, its parts joined with line ends. Throws ApiError (400) naming `path` for other parts. */
export function contentText(value: z.output<typeof content>, path: string): string {
  if (typeof value === 'string') return value;
  const texts = value.map((part, at) => {
    const key = Object.hasOwn(textKeys, part.type) ? textKeys[part.type]! : undefined;
    if (key === undefined) {
      throw invalid(
        `${path}[${at}].type`,
        `'${path}[${at}]' is of type '${clip(part.type)}', but only text is supported.`,
      );
    }
    const text = part[key];
    if (typeof text !== 'string') throw invalid(`${path}[${at}].${key}`, `'${path}[${at}].${key}' must be a string.`);
    return text;
  });
  return texts.join('\n');
}
