/** The HTTP application: middleware, routes and the one place where errors become answers. Needs no socket. */
import { Hono } from 'hono';
import { endRequest } from './answer.js';
import { resumeMemory } from './config.js';
import type { AppDeps, AppEnv } from './context.js';
import { cors } from './cors.js';
import { clientClosed } from './disconnect.js';
import { ApiError, clip, toApiError } from './errors.js';
import { authenticate, countAgainstKey } from './keys/authenticate.js';
import { LiveRequests } from './live-requests.js';
import { pace } from './pace.js';
import { isRequestId, newRequestId, setRequestId } from './request-id.js';
import { ResumableStreams, resumption } from './resume.js';
import { cacheRoutes } from './routes/cache.js';
import { chatRoutes } from './routes/chat.js';
import { completionRoutes } from './routes/completions.js';
import { infoRoutes } from './routes/info.js';
import { modelRoutes } from './routes/models.js';
import { requestRoutes } from './routes/requests.js';
import { responsesRoutes } from './routes/responses.js';
import { tokenRoutes } from './routes/tokens.js';

const generationPaths = ['/v1/completions', '/v1/chat/completions', '/v1/responses'];

export function createApp(deps: AppDeps): Hono<AppEnv> {
  const app = new Hono<AppEnv>();
  const paths = new Set<string>();

  app.use(async (c, next) => {
    const given = c.req.header('X-Request-Id');
    const id = isRequestId(given) ? given : newRequestId();
    c.set('record', {
      id,
      method: c.req.method,
      path: c.req.path,
      handler: paths.has(c.req.path) ? c.req.path : 'other',
      start: performance.now(),
      status: 200,
      streamed: false,
    });
    setRequestId(c, id);
    await next();
    const { record } = c.var;
    if (record.streamed) return;
    record.status = c.req.raw.signal.aborted ? clientClosed : c.res.status;
    endRequest(c, deps);
  });

  app.use(cors(deps.config.allowedOrigins));
  if (deps.keys) app.use(authenticate(deps.keys));

  const { config } = deps;
  const streams =
    config.resumeWindow > 0 ? new ResumableStreams({ window: config.resumeWindow, ...resumeMemory }) : undefined;
  const paced = pace();
  for (const path of generationPaths) {
    app.post(path, paced);
    if (streams) app.post(path, resumption(streams, config));
    app.post(path, countAgainstKey);
  }

  const parts = { ...deps, live: new LiveRequests(), streams };
  const routes = [
    infoRoutes(parts),
    modelRoutes(parts),
    completionRoutes(parts),
    chatRoutes(parts),
    responsesRoutes(parts),
    requestRoutes(parts),
    cacheRoutes(parts),
    tokenRoutes(parts),
  ];
  for (const route of routes) app.route('/', route);
  for (const { path, method } of app.routes) if (method !== 'ALL') paths.add(path);
  refuseOtherMethods(app);

  app.notFound((c) => {
    const error = new ApiError(404, `There is nothing at ${clip(c.req.path)}.`, { code: 'not_found' });
    return c.json(error.body(), error.status);
  });

  app.onError((thrown, c) => {
    const error = toApiError(thrown);
    if (c.req.raw.signal.aborted) return c.json(error.body(), error.status);
    c.var.record.error = error.message;
    if (error.status === 500) c.var.record.cause = error.options.cause;
    return c.json(error.body(), error.status, error.headers());
  });

  return app;
}

/** Answers every known path's other methods with 405. */
function refuseOtherMethods(app: Hono<AppEnv>): void {
  const methods = new Map<string, Set<string>>();
  for (const { path, method } of app.routes) {
    if (method !== 'ALL') methods.set(path, (methods.get(path) ?? new Set()).add(method));
  }
  for (const [path, allowed] of methods) {
    if (allowed.has('GET')) allowed.add('HEAD');
    const allow = [...allowed, 'OPTIONS'].join(', ');
    app.all(path, (c) => {
      c.header('Allow', allow);
      throw new ApiError(405, `${c.req.method} is not allowed here; use ${allow}.`, { code: 'method_not_allowed' });
    });
  }
}
