/** POST /v1/requests/{id}/cancel and GET /v1/streams/{id}: what may be done about requests that are running. */
import { Hono } from 'hono';
import type { AppEnv, RouteDeps } from '../context.js';
import { ApiError, clip } from '../errors.js';
import { ownerOf } from '../keys/authenticate.js';
import { parseEventId } from '../resume.js';

export function requestRoutes({ live, streams }: RouteDeps): Hono<AppEnv> {
  const app = new Hono<AppEnv>();

  app.post('/v1/requests/:id/cancel', (c) => {
    const id = c.req.param('id');
    const cancelled = live.cancel(id, ownerOf(c));
    if (cancelled === 0) {
      throw new ApiError(404, `No request '${clip(id)}' is running.`, { code: 'request_not_found' });
    }
    return c.json({ id, object: 'request.cancelled', cancelled });
  });

  if (streams !== undefined) {
    app.get('/v1/streams/:id', (c) => {
      const id = c.req.param('id');
      const lastEvent = c.req.header('Last-Event-ID') ?? `${id}.0`;
      const position = parseEventId(lastEvent);
      if (position.id !== id) throw new ApiError(400, 'Last-Event-ID is of another stream.');
      return streams.resume(c, ownerOf(c), position);
    });
  }
  return app;
}
