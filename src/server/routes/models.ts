/** GET /v1/models and /v1/models/{id}. */
import { Hono } from 'hono';
import { available } from '../availability.js';
import type { AppDeps, AppEnv } from '../context.js';
import { modelNotFound } from '../errors.js';

export function modelRoutes(deps: AppDeps): Hono<AppEnv> {
  const app = new Hono<AppEnv>();
  const model = () => ({
    id: deps.model.id,
    object: 'model',
    created: deps.model.created,
    owned_by: 'sluice',
    root: deps.model.id,
    parent: null,
    max_model_len: available(deps).maxModelLen,
  });
  app.get('/v1/models', (c) => c.json({ object: 'list', data: [model()] }));
  app.get('/v1/models/:id{.+}', (c) => {
    if (c.req.param('id') !== deps.model.id) throw modelNotFound(c.req.param('id'));
    return c.json(model());
  });
  return app;
}
