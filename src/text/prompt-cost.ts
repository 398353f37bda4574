/** How long a prompt takes to encode, estimated before anything is done for it. */
import type { Prompt } from './prompt-encoder.js';

/** What a template takes for each value of a chat, messages and their fields, beside encoding its text. */
const UNITS_PER_VALUE = 48;

/** In UTF-16 units of text to encode; beyond `limit`, some number beyond it. */
export function promptCost(prompt: Prompt, limit: number): number {
  if (prompt.kind === 'text') return prompt.text.length + 1;
  const { tools, variables } = prompt.options;
  const left: unknown[] = [prompt.messages, tools, variables];
  let cost = 1;
  while (left.length > 0 && cost <= limit) {
    const value = left.pop();
    if (typeof value === 'string') cost += value.length;
    if (typeof value !== 'object' || value === null) continue;
    const values: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
    cost += values.length * UNITS_PER_VALUE;
    if (cost <= limit) left.push(...values);
  }
  return cost;
}
