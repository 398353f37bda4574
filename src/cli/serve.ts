/** `sluice serve`: loads a model and answers HTTP until it is told to stop. */
import type { EngineInfo } from '../engine/protocol.js';
import { startEngine, type WorkerEngineClient } from '../engine/worker-client.js';
import { UserError } from '../errors.js';
import { defaultServerConfig } from '../server/config.js';
import { stepOverdue } from '../server/health.js';
import { type RunningServer, startServer } from '../server/listen.js';
import { watchProgress } from '../server/watchdog.js';
import type { LogLevel } from '../telemetry/levels.js';
import { createLogger, type Logger, logRequest } from '../telemetry/logs.js';
import { ServerMetrics } from '../telemetry/metrics.js';
import { version } from '../version.js';
import { type HttpOptions, httpConfig, keyRing } from './http-options.js';
import { openModel } from './load.js';
import { engineConfig, type ModelOptions, modelName } from './model-options.js';
import { loadingProgress } from './progress.js';
import { type SchedulingOptions, schedulingConfig } from './scheduling-options.js';
import { formatSize } from './values.js';

export interface ServeOptions extends ModelOptions, HttpOptions, SchedulingOptions {
  readonly servedModelName?: string;
  readonly host: string;
  readonly port: number;
  readonly shutdownTimeout: number;
  readonly progressTimeout: number;
  readonly logLevel: LogLevel;
  readonly logContent: boolean;
  readonly metrics: boolean;
}

/** Resolves with the exit code once the server has ended. */
export async function serve(options: ServeOptions): Promise<number> {
  const config = { ...engineConfig(options), ...schedulingConfig(options) };
  const keys = keyRing(options);
  const { text, model } = await openModel(config, options.servedModelName ?? modelName(options.model));
  const logger = createLogger({
    level: options.logLevel,
    pretty: process.stderr.isTTY === true,
    stream: process.stderr,
  });
  const progress = loadingProgress(process.stderr);
  let lost: (error: Error) => void = () => {};
  const engineLost = new Promise<Error>((resolve) => {
    lost = resolve;
  });

  let engine!: WorkerEngineClient;
  const metrics = options.metrics
    ? new ServerMetrics({ model: model.id, stepOverdue: () => stepOverdue({ engine }) })
    : undefined;
  const server = await startServer(
    () => {
      engine = startEngine(config, {
        onProgress: progress.update,
        onStep: (stats, outputs) => metrics?.step(stats, outputs),
        onFailure: (error) => lost(error),
      });
      return {
        engine,
        text,
        model,
        config: {
          ...defaultServerConfig,
          ...httpConfig(options),
          progressTimeout: options.progressTimeout,
          logContent: options.logContent,
        },
        ...(metrics && { metrics }),
        ...(keys && { keys }),
        onRequestEnd: (record) => logRequest(logger, record),
      };
    },
    { host: options.host, port: options.port, maxConnections: options.maxConnections },
  );

  watchProgress({ engine }, options.progressTimeout, {
    onStalled: (overdue) => logger.error(`The engine has owed a step for ${Math.round(overdue)} s: stalled.`),
    onRecovered: () => logger.warn('The engine makes progress again.'),
  });
  const stopped = stopOnSignals(server, options.shutdownTimeout, logger);
  const started = engine.ready().then(
    (info) => {
      metrics?.ready(info);
      progress.stop();
      process.stdout.write(banner(server, model.id, options, info));
    },
    () => progress.stop(),
  );
  const failure = await Promise.race([engineLost, stopped.then(() => undefined)]);
  await started;
  if (failure === undefined) return stopped;
  await server.stop(1);
  throw failure instanceof UserError ? failure : new UserError(`The engine is lost. ${failure.message}`);
}

/** Resolves with the exit code after the first signal's drain, or at once after the second's kill. */
function stopOnSignals(server: RunningServer, timeout: number, logger: Logger): Promise<number> {
  return new Promise((resolve) => {
    let signals = 0;
    const onSignal = (signal: NodeJS.Signals) => {
      signals++;
      if (signals === 1) {
        logger.info(`${signal}: no new requests; running ones have ${timeout} s. A second signal ends them now.`);
        void server.stop(timeout).then(() => resolve(0));
      } else if (signals === 2) {
        logger.warn(`${signal} again: ending now.`);
        void server.kill().then(() => resolve(1));
      }
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}

function banner(server: RunningServer, id: string, options: ServeOptions, info: EngineInfo): string {
  const reachable =
    options.host === '0.0.0.0' || options.host === '::' ? `http://127.0.0.1:${server.port}` : server.url;
  return `
sluice ${version}

  address  ${server.url}
  model    ${id} (${info.precision}, up to ${info.maxModelLen} tokens a sequence)
  device   ${info.device}: ${info.deviceDescription.split('; ').join('\n           ')}
  cache    ${formatSize(info.kvCacheBytes)} of ${info.kvCacheDtype} in ${info.numBlocks} blocks of ${info.blockSize} tokens

Try it:

  curl -N ${reachable}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"messages": [{"role": "user", "content": "Hello!"}], "stream": true}'

`;
}
