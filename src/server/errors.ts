/**
 * Errors as OpenAI's clients expect them: {"error":{message,type,param,code}}. Everything that a request can fail with
 * becomes an `ApiError` here, whether it is answered as a status or, once a stream has begun, as an event.
 */
import { EngineError } from '../engine/client.js';
import type { EngineFaultCode } from '../engine/protocol.js';
import { ChatTemplateError } from '../text/text-model.js';

export type ErrorStatus = 400 | 401 | 404 | 405 | 413 | 429 | 500 | 503;

export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

const types: Record<ErrorStatus, string> = {
  400: 'invalid_request_error',
  401: 'invalid_request_error',
  404: 'invalid_request_error',
  405: 'invalid_request_error',
  413: 'invalid_request_error',
  429: 'rate_limit_error',
  500: 'server_error',
  503: 'service_unavailable',
};

export interface ApiErrorOptions {
  /** The field of the body that is wrong, as a path: messages[0].content. */
  readonly param?: string | undefined;
  readonly code?: string;
  /** Seconds for the Retry-After header. */
  readonly retryAfter?: number;
  /** The answer should be the last on its connection. */
  readonly close?: boolean;
  readonly cause?: unknown;
}

/** A failed request: what is answered and with which status. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  constructor(
    readonly status: ErrorStatus,
    message: string,
    readonly options: ApiErrorOptions = {},
  ) {
    super(message, { cause: options.cause });
  }

  body(): ErrorBody {
    return {
      error: {
        message: this.message,
        type: types[this.status],
        param: this.options.param ?? null,
        code: this.options.code ?? null,
      },
    };
  }

  headers(): Record<string, string> {
    const headers: Record<string, string> = {};
    if (this.options.retryAfter !== undefined) headers['Retry-After'] = String(this.options.retryAfter);
    if (this.options.close) headers['Connection'] = 'close';
    return headers;
  }
}

/** A 400 that names the field. */
export function invalid(param: string | undefined, message: string, code?: string): ApiError {
  return new ApiError(400, message, code === undefined ? { param } : { param, code });
}

export function modelNotFound(model: string): ApiError {
  return new ApiError(404, `The model '${clip(model)}' does not exist. See /v1/models.`, {
    param: 'model',
    code: 'model_not_found',
  });
}

export function contextLengthExceeded(param: string, promptTokens: number, maxModelLen: number): ApiError {
  return invalid(
    param,
    `This model's maximum context length is ${maxModelLen} tokens, but the prompt has ${promptTokens} tokens and at ` +
      'least one must be left to generate. Shorten the prompt.',
    'context_length_exceeded',
  );
}

/** Text of the caller's that is repeated in a message, at a length fit for one. */
export function clip(text: string, length = 100): string {
  return text.length > length ? `${text.slice(0, length)}...` : text;
}

/** Anything thrown while serving a request, as the caller sees it. Unknown errors keep their message to the log. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof EngineError) {
    const { status, ...options } = engineFaults[error.code];
    const measured = error.retryAfter === undefined ? {} : { retryAfter: Math.max(1, Math.ceil(error.retryAfter)) };
    return new ApiError(status, error.message, { ...options, ...measured, cause: error });
  }
  if (error instanceof ChatTemplateError) return new ApiError(400, error.message, { param: 'messages', cause: error });
  return new ApiError(500, 'The server failed on this request. Its log says more.', {
    code: 'internal_error',
    cause: error,
  });
}

interface FaultAnswer {
  readonly status: ErrorStatus;
  readonly code: string;
  /** Seconds for Retry-After. */
  readonly retryAfter?: number;
}

const engineFaults: Readonly<Record<EngineFaultCode, FaultAnswer>> = {
  too_long: { status: 400, code: 'context_length_exceeded' },
  queue_full: { status: 429, code: 'queue_full', retryAfter: 1 },
  timeout: { status: 503, code: 'timeout', retryAfter: 1 },
  step_failed: { status: 500, code: 'step_failed' },
  closed: { status: 503, code: 'engine_closed', retryAfter: 5 },
};
