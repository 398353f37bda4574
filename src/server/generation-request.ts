/** How each endpoint that generates begins: is the model there, what is asked for, of which model, under which name. */
import type { z } from 'zod';
import { available, checkModel } from './availability.js';
import { readJson } from './body.js';
import type { AppContext, RouteDeps } from './context.js';
import type { ParamContext } from './params.js';
import { adoptRequestId } from './request-id.js';
import type { SharedBody } from './schemas/shared.js';
import { validate } from './validate.js';

/** Throws ApiError: 503 while nothing can be generated, 413, 400 for a body that does not fit, 404 for another model. */
export async function readRequest<Body extends Pick<SharedBody, 'model' | 'request_id'>>(
  c: AppContext,
  deps: RouteDeps,
  schema: z.ZodType<Body>,
): Promise<{ readonly body: Body; readonly context: ParamContext }> {
  const context = available(deps, c);
  const body = validate(schema, await readJson(c, deps.config.maxBodyBytes));
  checkModel(deps, body.model);
  adoptRequestId(c, body.request_id);
  return { body, context };
}
