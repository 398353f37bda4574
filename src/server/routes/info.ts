/** What a server says about itself: /, /health and /version. */
import { Hono } from 'hono';
import { version } from '../../version.js';
import type { AppDeps, AppEnv } from '../context.js';

export function infoRoutes(deps: AppDeps): Hono<AppEnv> {
  const app = new Hono<AppEnv>();

  app.get('/', (c) =>
    c.json({
      name: 'sluice',
      version,
      model: deps.model.id,
      endpoints: ['/v1/chat/completions', '/v1/completions', '/v1/models', '/health', '/version'],
    }),
  );

  app.get('/version', (c) => c.json({ version }));

  app.get('/health', (c) => {
    const { engine } = deps;
    const state = deps.lifecycle?.draining ? 'draining' : engine.state;
    if (state !== 'ready' || engine.info === undefined) {
      return c.json({ status: state }, 503, { 'Retry-After': '5' });
    }
    const { info, stats } = engine;
    return c.json({
      status: 'ok',
      model: deps.model.id,
      device: info.device,
      device_description: info.deviceDescription,
      precision: info.precision,
      max_model_len: info.maxModelLen,
      kv_cache_bytes: info.kvCacheBytes,
      running: stats?.running ?? 0,
      waiting: stats?.waiting ?? 0,
      blocks_used: stats?.blocksUsed ?? 0,
      blocks_total: stats?.blocksTotal ?? info.numBlocks,
      preemptions: stats?.preemptions ?? 0,
    });
  });
  return app;
}
