/** What a server says about itself: /, /version, /openapi.json, /health, /ready and /metrics. */
import { Hono } from 'hono';
import { version } from '../../version.js';
import type { AppContext, AppEnv, RouteDeps } from '../context.js';
import { type Health, healthOf } from '../health.js';
import { listedOperations, openApiDocument } from '../openapi/document.js';

export function infoRoutes(deps: RouteDeps): Hono<AppEnv> {
  const app = new Hono<AppEnv>();

  app.get('/', (c) =>
    c.json({
      name: 'sluice',
      version,
      model: deps.model.id,
      endpoints: listedOperations(deps).map(({ path }) => path),
      documentation: '/openapi.json',
    }),
  );

  app.get('/version', (c) => c.json({ version }));

  let document: object | undefined;
  app.get('/openapi.json', (c) => {
    document ??= openApiDocument(deps);
    return c.json(document);
  });

  app.get('/ready', (c) => answerHealth(c, healthOf(deps)));

  app.get('/health', (c) => {
    const { info, stats } = deps.engine;
    const health = healthOf(deps);
    if (info === undefined) return answerHealth(c, health);
    return answerHealth(c, health, {
      model: deps.model.id,
      device: info.device,
      device_description: info.deviceDescription,
      precision: info.precision,
      max_model_len: info.maxModelLen,
      kv_cache_bytes: info.kvCacheBytes,
      kv_cache_dtype: info.kvCacheDtype,
      running: stats?.running ?? 0,
      waiting: stats?.waiting ?? 0,
      blocks_used: stats?.blocksUsed ?? 0,
      blocks_total: stats?.blocksTotal ?? info.numBlocks,
      preemptions: stats?.preemptions ?? 0,
    });
  });

  const { metrics } = deps;
  if (metrics !== undefined) {
    app.get('/metrics', async (c) => c.body(await metrics.text(), 200, { 'Content-Type': metrics.contentType }));
  }
  return app;
}

/** 200 when all is well, else 503, so that load balancers and probes need not read the answer. */
function answerHealth(c: AppContext, health: Health, details: object = {}): Response {
  const body = { ...health, ...details };
  return health.status === 'ok' ? c.json(body) : c.json(body, 503, { 'Retry-After': '5' });
}
