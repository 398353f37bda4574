/** What every route works with: the parts the app is made of. */
import type { HttpBindings } from '@hono/node-server';
import type { Context } from 'hono';
import type { EngineClient } from '../engine/client.js';
import type { ServerMetrics } from '../telemetry/metrics.js';
import type { RequestRecord } from '../telemetry/request-record.js';
import type { TextModel } from '../text/text-model.js';
import type { ServedModel, ServerConfig } from './config.js';

export interface AppDeps {
  readonly engine: EngineClient;
  readonly text: TextModel;
  readonly model: ServedModel;
  readonly config: ServerConfig;
  /** Shared with who stops the server: while draining, new generation requests are refused. */
  readonly lifecycle?: { readonly draining: boolean };
  /** Where requests are measured; without it there is no /metrics. */
  readonly metrics?: ServerMetrics;
  readonly onRequestEnd?: (record: RequestRecord) => void;
}

export interface AppEnv {
  /** Undefined as a whole where the app is called without a socket. */
  Bindings: Partial<HttpBindings>;
  Variables: { requestId: string; record: RequestRecord };
}

export type AppContext = Context<AppEnv>;
