/** Lets requests in by their API key, where keys are asked for, and counts generations against the key's limits. */
import type { MiddlewareHandler } from 'hono';
import type { AppContext, AppEnv } from '../context.js';
import { ApiError } from '../errors.js';
import type { KeyRing } from './key-ring.js';

/** What everybody may see: whether the server is there and what it is, but nothing of what it is for. */
const open = new Set(['/', '/health', '/ready', '/metrics', '/version', '/openapi.json']);

/** Throws ApiError (401) for every path but the open ones without a key that is known. */
export function authenticate(keys: KeyRing): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const key = keys.find(c.req.header('Authorization'));
    if (key === undefined && !open.has(c.req.path)) {
      c.header('WWW-Authenticate', 'Bearer');
      throw new ApiError(401, 'The API key is missing or wrong: send it as Authorization: Bearer KEY.', {
        code: 'invalid_api_key',
      });
    }
    if (key !== undefined) {
      c.set('key', key);
      c.var.record.key = key.name;
    }
    await next();
  };
}

/** Throws ApiError (429) where the key's limits are reached. */
export const countAgainstKey: MiddlewareHandler<AppEnv> = async (c, next) => {
  const { key } = c.var;
  if (key !== undefined) {
    c.set('keyUse', key.begin());
    for (const [name, value] of Object.entries(key.headers())) c.header(name, value);
  }
  await next();
};

/** Whose a request is: only the same key may cancel or resume it. */
export function ownerOf(c: AppContext): string {
  return c.var.key?.name ?? '';
}
