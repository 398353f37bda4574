/** The body of POST /v1/completions. */
import { z } from 'zod';
import { requestLimits } from '../config.js';
import { alternatives, flag, sharedFields } from './shared.js';

/** A prompt as text or as token ids. */
export type Prompt = string | readonly number[];

/**
 * The four forms of a prompt, told apart by their first element. Written out because arrays of a million ids are legal
 * and a union would try every form on each of them.
 */
function promptFault(value: unknown): string | undefined {
  if (typeof value === 'string') return undefined;
  if (!Array.isArray(value)) return 'must be a string, an array of strings, an array of token ids or an array of those';
  if (value.length === 0) return 'must not be empty';
  if (typeof value[0] === 'number') return idsFault(value);
  if (value.length > requestLimits.prompts) return `must hold at most ${requestLimits.prompts} prompts`;
  if (typeof value[0] === 'string') {
    return value.every((item) => typeof item === 'string') ? undefined : 'must hold strings only, or token ids only';
  }
  for (const item of value) {
    if (!Array.isArray(item)) return 'must hold strings, token ids or arrays of token ids';
    const fault = idsFault(item);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function idsFault(ids: readonly unknown[]): string | undefined {
  for (const id of ids) {
    if (typeof id !== 'number' || !Number.isSafeInteger(id) || id < 0) {
      return 'must hold token ids: integers from 0 up';
    }
  }
  return undefined;
}

const ids = { type: 'array', items: { type: 'integer', minimum: 0, format: 'token-id' }, minItems: 1 };
const several = { type: 'array', minItems: 1, maxItems: requestLimits.prompts };

const prompt = z
  .custom<string | readonly string[] | readonly number[] | readonly (readonly number[])[]>(
    (value) => promptFault(value) === undefined,
    { error: (issue) => promptFault(issue.input) ?? 'is not a prompt' },
  )
  // What JSON Schema says of it, since a function says nothing.
  .meta({ anyOf: [{ type: 'string' }, { ...several, items: { type: 'string' } }, ids, { ...several, items: ids }] });

export const completionBody = z.object({
  ...sharedFields,
  prompt,
  best_of: z.int().min(1).max(requestLimits.choices).nullish(),
  echo: flag,
  logprobs: alternatives,
  suffix: z.string().meta({ maxLength: 0 }).nullish(),
});

export type CompletionBody = z.output<typeof completionBody>;

/** The prompts of a body, each as text or as token ids. */
export function promptList(value: CompletionBody['prompt']): readonly Prompt[] {
  if (typeof value === 'string') return [value];
  return typeof value[0] === 'number' ? [value as readonly number[]] : (value as readonly Prompt[]);
}
