/**
 * Lets pages of other origins call the server. Hono's own middleware sets headers on a response object made in advance,
 * which then hides from the adapter that a stream has answered already; this sets them ahead of any response, so that
 * streams, errors and refusals all carry them.
 */
import type { MiddlewareHandler } from 'hono';
import type { AppEnv } from './context.js';

const exposed = [
  'X-Request-Id',
  'X-Stream-Id',
  'Retry-After',
  ...['limit', 'remaining', 'reset'].flatMap((what) => [`X-RateLimit-${what}-Requests`, `X-RateLimit-${what}-Tokens`]),
].join(', ');
const methods = 'GET, HEAD, POST, OPTIONS';
const maxAge = '86400';

/** @param origins who may call; undefined for everybody */
export function cors(origins: readonly string[] | undefined): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    if (origins === undefined) {
      c.header('Access-Control-Allow-Origin', '*');
    } else {
      const origin = c.req.header('Origin');
      if (origin !== undefined && origins.includes(origin)) c.header('Access-Control-Allow-Origin', origin);
      c.header('Vary', 'Origin');
    }
    c.header('Access-Control-Expose-Headers', exposed);
    if (c.req.method !== 'OPTIONS') return next();
    c.header('Access-Control-Allow-Methods', methods);
    // A wildcard would not cover Authorization.
    c.header('Access-Control-Allow-Headers', c.req.header('Access-Control-Request-Headers') ?? 'Authorization, *');
    c.header('Access-Control-Max-Age', maxAge);
    c.header('Vary', 'Access-Control-Request-Headers', { append: true });
    return c.body(null, 204);
  };
}
