/** Keys as people write them: on the command line, or in a JSON file with limits for each. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { UserError } from '../../errors.js';
import type { KeySpec } from './api-key.js';
import { hashKey } from './key-ring.js';

const limit = z.int().min(1).optional();

const entry = z
  .strictObject({
    name: z.string().min(1).max(128),
    key: z.string().regex(/^\S+$/, 'must not be empty or have spaces').optional(),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/i, 'must be 64 hexadecimal digits')
      .optional(),
    requests_per_minute: limit,
    tokens_per_minute: limit,
    max_concurrency: limit,
  })
  .refine((item) => (item.key === undefined) !== (item.sha256 === undefined), {
    error: "must have either 'key' or 'sha256'",
  });

const keyFile = z.strictObject({ keys: z.array(entry).min(1) });

/** Keys without limits, named by their place: key-1, key-2. Throws UserError. */
export function plainKeys(keys: readonly string[]): KeySpec[] {
  return keys.map((key, index) => {
    if (!/^\S+$/.test(key)) throw new UserError('An API key must not be empty or have spaces: check --api-key.');
    return { name: `key-${index + 1}`, hash: hashKey(key) };
  });
}

/**
 * Reads {"keys": [{"name", "key" or "sha256", "requests_per_minute", "tokens_per_minute", "max_concurrency"}]}; the
 * limits may be left out. Throws UserError, which never has a key in it.
 */
export function readKeyFile(path: string): KeySpec[] {
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    const reason = error instanceof SyntaxError ? 'it is no JSON' : (error as Error).message;
    throw new UserError(`The file of API keys ${path} cannot be read: ${reason}.`);
  }
  const { data, error } = keyFile.safeParse(json);
  if (error) {
    const { path: at, message } = error.issues[0]!;
    throw new UserError(`The file of API keys ${path} is wrong at ${at.join('.') || 'its top'}: ${message}.`);
  }
  const names = new Set<string>();
  return data.keys.map(({ name, key, sha256, ...limits }) => {
    if (names.has(name)) throw new UserError(`The file of API keys ${path} has the name '${name}' twice.`);
    names.add(name);
    return {
      name,
      hash: key === undefined ? Buffer.from(sha256!, 'hex') : hashKey(key),
      requestsPerMinute: limits.requests_per_minute,
      tokensPerMinute: limits.tokens_per_minute,
      maxConcurrency: limits.max_concurrency,
    };
  });
}
