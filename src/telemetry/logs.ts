/**
 * What is logged: one line a request, at its end, with numbers only; prompts and answers only where that was asked for.
 * Readable lines in a terminal, JSON elsewhere.
 */
import { type Logger, pino } from 'pino';
import { PinoPretty } from 'pino-pretty';
import type { LogLevel } from './levels.js';
import type { RequestRecord } from './request-record.js';

export type { Logger } from 'pino';

/** Logs to standard error's file descriptor or any other stream; `pretty` is for people. */
export function createLogger(options: {
  readonly level: LogLevel;
  readonly pretty: boolean;
  readonly stream: NodeJS.WritableStream;
}): Logger {
  const base = { level: options.level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  if (!options.pretty) return pino(base, options.stream);
  const pretty = PinoPretty({
    destination: options.stream,
    translateTime: 'SYS:HH:MM:ss',
    ignore: 'pid,hostname',
    singleLine: true,
    colorize: true,
    sync: true,
  });
  return pino(base, pretty);
}

/** Probes come every few seconds and would drown the rest. */
const quietPaths = new Set(['/health', '/ready', '/metrics']);

export function logRequest(logger: Logger, record: RequestRecord): void {
  const line = {
    request: record.id,
    status: record.status,
    ms: tenths(record.duration),
    ...(record.streamed && { stream: true }),
    ...(record.promptTokens !== undefined && {
      prompt_tokens: record.promptTokens,
      cached_tokens: record.cachedTokens,
    }),
    ...(record.completionTokens !== undefined && { completion_tokens: record.completionTokens }),
    ...(record.firstToken !== undefined && { first_token_ms: tenths(record.firstToken) }),
    ...(record.timePerToken !== undefined && { ms_per_token: tenths(record.timePerToken) }),
    ...(record.finish !== undefined && { finish: record.finish }),
    ...record.content,
    ...(record.error !== undefined && { error: record.error }),
    ...(record.cause instanceof Error && { err: record.cause }),
  };
  const text = `${record.method} ${record.path}`;
  if (record.cause !== undefined) logger.error(line, text);
  else if (quietPaths.has(record.path)) logger.debug(line, text);
  else if (record.status >= 500) logger.error(line, text);
  else logger.info(line, text);
}

function tenths(milliseconds: number | undefined): number | undefined {
  return milliseconds === undefined ? undefined : Math.round(milliseconds * 10) / 10;
}
