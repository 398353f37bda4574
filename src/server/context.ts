/** What every route works with: the parts the app is made of. */
import type { HttpBindings } from '@hono/node-server';
import type { Context } from 'hono';
import type { EngineClient } from '../engine/client.js';
import type { ServerMetrics } from '../telemetry/metrics.js';
import type { RequestRecord } from '../telemetry/request-record.js';
import type { TextModel } from '../text/text-model.js';
import type { ServedModel, ServerConfig } from './config.js';
import type { ApiKey, KeyUse } from './keys/api-key.js';
import type { KeyRing } from './keys/key-ring.js';
import type { LiveRequests } from './live-requests.js';
import type { ResumableStreams } from './resume.js';

export interface AppDeps {
  readonly engine: EngineClient;
  readonly text: TextModel;
  readonly model: ServedModel;
  readonly config: ServerConfig;
  /** Shared with who stops the server: while draining, new generation requests are refused. */
  readonly lifecycle?: { readonly draining: boolean };
  /** The keys that are asked for; without it everybody may do everything. */
  readonly keys?: KeyRing;
  /** Where requests are measured; without it there is no /metrics. */
  readonly metrics?: ServerMetrics;
  readonly onRequestEnd?: (record: RequestRecord) => void;
}

/** The same with what the application itself keeps. */
export interface RouteDeps extends AppDeps {
  readonly live: LiveRequests;
  /** Undefined where streams end with their connection. */
  readonly streams: ResumableStreams | undefined;
}

export interface AppEnv {
  /** Undefined as a whole where the app is called without a socket. */
  Bindings: Partial<HttpBindings>;
  Variables: {
    requestId: string;
    record: RequestRecord;
    /** The key the request came with, and its place among what that key may ask for; where keys are asked for. */
    key?: ApiKey;
    keyUse?: KeyUse;
  };
}

export type AppContext = Context<AppEnv>;
