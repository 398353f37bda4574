/** Prompts from a file of JSON lines. */
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { UserError } from '../errors.js';

const line = z.union([
  z.string().transform((prompt) => ({ prompt })),
  z.object({
    prompt: z.union([z.string(), z.array(z.int().nonnegative())]),
    max_tokens: z.int().positive().optional(),
  }),
  z.object({
    messages: z.array(z.looseObject({ role: z.string() })).nonempty(),
    max_tokens: z.int().positive().optional(),
  }),
]);

/** A text, token ids or a chat, and how many tokens to ask for when the line says so. */
export type FilePrompt = z.output<typeof line>;

/**
 * Each line is a string, `{"prompt": ...}` or `{"messages": [...]}`, the objects with `max_tokens` if need be.
 * @throws UserError that names the file and the line at fault
 */
export async function readPromptFile(file: string): Promise<FilePrompt[]> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw new UserError(`${file}: cannot be read (${error instanceof Error ? error.message : String(error)})`);
  }
  const prompts: FilePrompt[] = [];
  for (const [index, content] of text.split('\n').entries()) {
    if (content.trim() !== '') prompts.push(parseLine(content, `${file}, line ${index + 1}`));
  }
  if (prompts.length === 0) throw new UserError(`${file}: holds no prompt`);
  return prompts;
}

function parseLine(content: string, where: string): FilePrompt {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    throw new UserError(`${where}: not JSON; write one string or object a line`);
  }
  const parsed = line.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new UserError(`${where}: neither a string nor an object with "prompt" or "messages"`);
}
