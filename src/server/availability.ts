/** Whether generation requests can be served now, and against what. */
import type { AppContext, AppDeps } from './context.js';
import { ApiError, modelNotFound } from './errors.js';
import type { ParamContext } from './params.js';

/** What parameters are resolved against. Throws ApiError (503, with Retry-After) while loading, draining or failed. */
export function available(deps: AppDeps, c?: AppContext): ParamContext {
  const { engine } = deps;
  if (deps.lifecycle?.draining || engine.state === 'draining') {
    throw new ApiError(503, 'The server is shutting down.', { code: 'server_draining', retryAfter: 5, close: true });
  }
  if (engine.state === 'loading' || engine.info === undefined) {
    throw new ApiError(503, 'The model is being loaded.', { code: 'model_loading', retryAfter: 5 });
  }
  if (engine.state !== 'ready') {
    throw new ApiError(503, 'The engine has stopped.', { code: 'engine_closed', retryAfter: 5 });
  }
  const { vocabSize, maxModelLen } = engine.info;
  return { text: deps.text, model: deps.model, vocabSize, maxModelLen, account: c?.var.key?.name };
}

/** A request that names no model gets the one that is served. Throws ApiError (404) for any other. */
export function checkModel(deps: AppDeps, model: string | null | undefined): void {
  if (model !== undefined && model !== null && model !== deps.model.id) throw modelNotFound(model);
}
