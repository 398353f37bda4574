/** POST /v1/cache/reset: forgets the prefixes of earlier prompts, for measurements and after changes of tenants. */
import { Hono } from 'hono';
import { available } from '../availability.js';
import type { AppEnv, RouteDeps } from '../context.js';

export function cacheRoutes(deps: RouteDeps): Hono<AppEnv> {
  const app = new Hono<AppEnv>();
  app.post('/v1/cache/reset', (c) => {
    available(deps, c);
    deps.engine.resetPrefixCache();
    return c.json({ object: 'cache.reset' });
  });
  return app;
}
