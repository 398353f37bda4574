/** The server under load: where it is, how to address it, and which model it serves. */
import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { UserError } from '../errors.js';
import { isObject } from './openai-chunk.js';

export interface Target {
  /** Ends with the API's version path and no slash, as in `http://127.0.0.1:8000/v1`. */
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * @param baseUrl with or without the `/v1` at its end
 * @param extraHeaders further headers, each as `Name: value`
 */
export function makeTarget(baseUrl: string, apiKey: string | undefined, extraHeaders: readonly string[] = []): Target {
  let url: URL;
  try {
    url = new URL(baseUrl);
  } catch {
    throw new UserError(`"${baseUrl}" is not a URL; write for example http://127.0.0.1:8000`);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new UserError(`"${baseUrl}" is neither http nor https`);
  }
  const path = url.pathname.replace(/\/+$/, '');
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (apiKey !== undefined) headers['authorization'] = `Bearer ${apiKey}`;
  for (const header of extraHeaders) {
    const match = /^([\w-]+):\s*(.*)$/.exec(header);
    if (match === null) throw new UserError(`header "${header}" is not of the form "Name: value"`);
    headers[match[1]!.toLowerCase()] = match[2]!;
  }
  for (const [name, value] of Object.entries(headers)) checkHeader(name, value);
  return { baseUrl: `${url.origin}${/\/v\d+$/.test(path) ? path : `${path}/v1`}`, headers };
}

function checkHeader(name: string, value: string): void {
  try {
    http.validateHeaderName(name);
    http.validateHeaderValue(name, value);
  } catch {
    throw new UserError(`the value for the header "${name}" holds characters that a header cannot`);
  }
}

/** Asks the server for its first model. */
export async function discoverModel(target: Target): Promise<string> {
  const url = `${target.baseUrl}/models`;
  let body: unknown;
  try {
    const response = await fetch(url, { headers: target.headers, signal: AbortSignal.timeout(30_000) });
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    body = await response.json();
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    throw new UserError(`${url}: ${describe(cause)}; is the server up? With --model, it is not asked for its models`);
  }
  const models = isObject(body) && Array.isArray(body['data']) ? body['data'] : [];
  const first: unknown = models[0];
  if (!isObject(first) || typeof first['id'] !== 'string') {
    throw new UserError(`${url} lists no model; name one with --model`);
  }
  return first['id'];
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message || ('code' in error ? String(error.code) : error.name);
}

/** A keep-alive agent of `node:http` or `node:https`, with as many sockets as there are requests at once. */
export function makeAgent(target: Target): http.Agent {
  const options = { keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, maxFreeSockets: 4096, noDelay: true };
  return closeIdleEarly(target.baseUrl.startsWith('https:') ? new https.Agent(options) : new http.Agent(options));
}

/** Well under the 5 s after which Node's servers, and many others, close an idle connection. */
const IDLE_LIMIT_MS = 2000;

/**
 * Closes idle connections from this side first. Otherwise a request may meet a connection that the server is just
 * closing, and the reset would count as the server's failure.
 */
function closeIdleEarly(agent: http.Agent): http.Agent {
  const keepSocketAlive = agent.keepSocketAlive.bind(agent) as unknown as (socket: Socket) => boolean;
  const reuseSocket = agent.reuseSocket.bind(agent) as unknown as (socket: Socket, request: http.ClientRequest) => void;
  return Object.assign(agent, {
    keepSocketAlive(socket: Socket): boolean {
      const keep = keepSocketAlive(socket);
      if (keep) socket.setTimeout(IDLE_LIMIT_MS);
      return keep;
    },
    reuseSocket(socket: Socket, request: http.ClientRequest): void {
      socket.setTimeout(0);
      reuseSocket(socket, request);
    },
  });
}
