/** Turns a body into typed fields, or into a 400 whose message says what is wrong with which field. */
import type { z } from 'zod';
import { clip, invalid } from './errors.js';

/** Checks a parsed body against a schema. Throws ApiError (400). */
export function validate<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw invalid(undefined, 'The body must be a JSON object.');
  }
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const issue = innermost(result.error.issues[0]!);
  const param = fieldPath(issue.path);
  throw invalid(param, `'${clip(param)}' ${explain(issue, valueAt(body, issue.path))}.`);
}

type Issue = z.core.$ZodIssue;

/** Of a union's issues, the one that got deeper than the union itself; its own message otherwise. */
function innermost(issue: Issue): Issue {
  if (issue.code !== 'invalid_union') return issue;
  for (const branch of issue.errors) {
    const inner = branch[0];
    if (inner && (inner.path.length > 0 || (inner.code !== 'invalid_type' && branch.length === 1))) {
      return innermost({ ...inner, path: [...issue.path, ...inner.path] });
    }
  }
  return issue;
}

function fieldPath(path: readonly PropertyKey[]): string {
  let text = '';
  for (const key of path) {
    if (typeof key === 'number') text += `[${key}]`;
    else text += text === '' ? String(key) : `.${String(key)}`;
  }
  return clip(text, 200);
}

function explain(issue: Issue, value: unknown): string {
  switch (issue.code) {
    case 'invalid_type':
      if (value === undefined) return 'is required';
      return `must be ${nouns[issue.expected] ?? `of type ${issue.expected}`}, not ${describe(value)}`;
    case 'too_small':
      if (issue.origin === 'array' || issue.origin === 'string') {
        return issue.minimum === 1 ? 'must not be empty' : `must have at least ${issue.minimum} items`;
      }
      return `must be ${issue.inclusive ? 'at least' : 'greater than'} ${issue.minimum}, not ${describe(value)}`;
    case 'too_big':
      if (issue.origin === 'array') return `must have at most ${issue.maximum} items`;
      if (issue.origin === 'string') return `must have at most ${issue.maximum} characters`;
      if (issue.message.startsWith('must')) return issue.message;
      return `must be at most ${issue.maximum}, not ${describe(value)}`;
    default:
      return issue.message;
  }
}

const nouns: Record<string, string> = {
  int: 'an integer',
  number: 'a finite number',
  string: 'a string',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  record: 'an object',
};

function describe(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : 'an infinite number';
  if (typeof value === 'object') return Array.isArray(value) ? 'an array' : 'an object';
  return typeof value === 'string' ? `the string '${clip(value, 40)}'` : String(value);
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value = body;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}
