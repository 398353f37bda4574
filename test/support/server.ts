/** The HTTP application on a fake engine and a fake text model, called without a socket or through a real one. */
import type { Hono } from 'hono';
import { createApp } from '../../src/server/app.js';
import { defaultServerConfig, type ServedModel, type ServerConfig } from '../../src/server/config.js';
import type { AppDeps, AppEnv } from '../../src/server/context.js';
import type { KeyRing } from '../../src/server/keys/key-ring.js';
import { type RunningServer, startServer } from '../../src/server/listen.js';
import type { ServerMetrics } from '../../src/telemetry/metrics.js';
import type { RequestRecord } from '../../src/telemetry/request-record.js';
import { FakeEngine, type FakeEngineOptions } from './fake-engine.js';
import { end, FakeText } from './fake-text.js';

export const testModel: ServedModel = { id: 'fake-model', created: 1_700_000_000, endTokens: [end], defaults: {} };

export interface TestSetup extends FakeEngineOptions {
  readonly config?: Partial<ServerConfig>;
  readonly model?: Partial<ServedModel>;
  readonly text?: FakeText;
  readonly lifecycle?: { readonly draining: boolean };
  readonly keys?: KeyRing;
  readonly metrics?: ServerMetrics;
}

export interface TestParts {
  readonly engine: FakeEngine;
  readonly text: FakeText;
  readonly records: RequestRecord[];
  readonly deps: AppDeps;
}

export function testParts(setup: TestSetup = {}): TestParts {
  const engine = new FakeEngine(setup);
  setup.metrics?.ready(engine.info!);
  const text = setup.text ?? new FakeText();
  const records: RequestRecord[] = [];
  const deps: AppDeps = {
    engine,
    text,
    model: { ...testModel, ...setup.model },
    config: { ...defaultServerConfig, ...setup.config },
    onRequestEnd: (record) => records.push(record),
    ...(setup.metrics && { metrics: setup.metrics }),
    ...(setup.lifecycle && { lifecycle: setup.lifecycle }),
    ...(setup.keys && { keys: setup.keys }),
  };
  return { engine, text, records, deps };
}

export interface TestApp extends TestParts {
  readonly app: Hono<AppEnv>;
  post(path: string, body: unknown, init?: RequestInit): Promise<Response>;
  completion(body: object): Promise<Response>;
  chat(body: object): Promise<Response>;
}

export function testApp(setup: TestSetup = {}): TestApp {
  const parts = testParts(setup);
  const app = createApp(parts.deps);
  const post = async (path: string, body: unknown, init: RequestInit = {}) =>
    app.fetch(
      new Request(`http://test${path}`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: typeof body === 'string' ? body : JSON.stringify(body),
        ...init,
      }),
    );
  return {
    ...parts,
    app,
    post,
    completion: (body) => post('/v1/completions', { model: 'fake-model', prompt: 'Hello', ...body }),
    chat: (body) =>
      post('/v1/chat/completions', { model: 'fake-model', messages: [{ role: 'user', content: 'Hello' }], ...body }),
  };
}

export interface TestServer extends TestParts {
  readonly server: RunningServer;
}

/** The same on a port of the loopback interface. Stop it at the end of the test. */
export async function testServer(setup: TestSetup = {}): Promise<TestServer> {
  const parts = testParts(setup);
  return { ...parts, server: await startServer(() => parts.deps, { host: '127.0.0.1', port: 0 }) };
}

/** The data of every event of a stream, which must be framed exactly: "data: ", one line, an empty line. */
export function eventData(stream: string): string[] {
  const blocks = stream.split('\n\n');
  const rest = blocks.pop();
  if (rest !== '') throw new Error(`the stream ends in the middle of an event: ${rest}`);
  return blocks.map((block) => {
    if (!block.startsWith('data: ') || block.includes('\n') || block.includes('\r')) {
      throw new Error(`wrongly framed event: ${JSON.stringify(block)}`);
    }
    return block.slice('data: '.length);
  });
}

// biome-ignore lint/suspicious/noExplicitAny: tests read JSON of any shape and assert on it
export type Json = any;

/** Parsed events of a stream that ends with [DONE]. */
export async function streamed(response: Response): Promise<Json[]> {
  const data = eventData(await response.text());
  if (data.at(-1) !== '[DONE]') throw new Error(`the stream does not end with [DONE]: ${data.at(-1)}`);
  return data.slice(0, -1).map((json) => JSON.parse(json) as Json);
}

/** Waits until a condition holds; fails after ten seconds. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const start = performance.now();
  while (!condition()) {
    if (performance.now() - start > 10_000) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
