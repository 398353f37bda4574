/**
 * Binds the application to a port and takes it down again: no new connections, running streams drained within a limit,
 * idle sockets closed at once, then the engine.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { getRequestListener, RequestError } from '@hono/node-server';
import { UserError } from '../errors.js';
import { createApp } from './app.js';
import { answerClientErrors } from './client-error.js';
import type { AppDeps } from './context.js';
import { ApiError, toApiError } from './errors.js';

export interface ListenOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** More are closed as they come; no limit if not given. */
  readonly maxConnections?: number;
}

export interface RunningServer {
  /** Where it listens: http://127.0.0.1:8000 */
  readonly url: string;
  readonly port: number;
  /**
   * Refuses new requests, lets running ones end, for at most `timeout` seconds; those left then get an error in their
   * stream. Closes the engine and resolves when the last connection is gone. A second call waits for the first.
   */
  stop(timeout: number): Promise<void>;
  /** Drops every connection and closes the engine, also during `stop`. */
  kill(): Promise<void>;
}

/** Longer than the idle time of usual load balancers (60 s), which else reuse a connection just as it closes. */
const keepAliveTimeout = 75_000;
/** Time for streams to get their last event out after the engine has gone. */
const lastWords = 500;
/** Time for requests that were under way to the server when it began to drain, which are then refused with an answer. */
const stragglers = 500;

/**
 * Takes the port, then calls `makeDeps` and starts to answer, so that nothing heavy is begun for a port that cannot be
 * had: that throws UserError.
 */
export async function startServer(
  makeDeps: () => Omit<AppDeps, 'lifecycle'>,
  options: ListenOptions,
): Promise<RunningServer> {
  const lifecycle = { draining: false };
  let fetch!: FetchCallback;
  const server = createServer(
    { keepAliveTimeout, headersTimeout: 60_000, requestTimeout: 300_000 },
    getRequestListener((request, env) => fetch(request, env), { errorHandler: refuse }),
  );
  answerClientErrors(server);
  if (options.maxConnections !== undefined) server.maxConnections = options.maxConnections;
  const connections = new Connections(server);
  server.prependListener('request', (_, response) => {
    if (lifecycle.draining) response.setHeader('Connection', 'close');
    response.once('close', () => {
      if (lifecycle.draining) setImmediate(() => server.closeIdleConnections());
    });
  });
  await listen(server, options);
  const deps = makeDeps();
  fetch = createApp({ ...deps, lifecycle }).fetch as FetchCallback;

  const { port } = server.address() as AddressInfo;
  const stopper = new Stopper(server, connections, deps, lifecycle);
  return {
    url: `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}`,
    port,
    stop: (timeout) => stopper.stop(timeout),
    kill: () => stopper.kill(),
  };
}

type FetchCallback = Parameters<typeof getRequestListener>[0];

/** Answers requests that never reach the application, as their target or Host header is none. */
function refuse(error: unknown): Response {
  const failure =
    error instanceof RequestError
      ? new ApiError(400, `The request cannot be read: ${error.message}.`)
      : toApiError(error);
  return Response.json(failure.body(), { status: failure.status });
}

function listen(server: Server, { host, port }: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) => reject(new UserError(explain(error, host, port)));
    server.once('error', fail);
    server.listen(port, host, () => {
      server.off('error', fail);
      resolve();
    });
  });
}

function explain(error: NodeJS.ErrnoException, host: string, port: number): string {
  switch (error.code) {
    case 'EADDRINUSE':
      return `Port ${port} on ${host} is in use. Choose another with --port, or stop what listens there.`;
    case 'EACCES':
      return `Port ${port} needs rights this process does not have. Choose one above 1023 with --port.`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `${host} is no address of this machine. Choose another with --host.`;
    default:
      return `Cannot listen on ${host}:${port}: ${error.message}`;
  }
}

/** How many requests of each connection are not answered yet. */
class Connections {
  private readonly requests = new Map<Socket, number>();

  constructor(server: Server) {
    server.on('connection', (socket) => {
      // Every response of a pipelining client watches its socket.
      socket.setMaxListeners(0);
      this.requests.set(socket, 0);
      socket.once('close', () => this.requests.delete(socket));
    });
    server.prependListener('request', ({ socket }, response) => {
      this.count(socket, 1);
      response.once('close', () => this.count(socket, -1));
    });
  }

  /** Also closes those that never sent a whole request, which are not idle to Node. */
  closeUnused(): void {
    for (const [socket, requests] of this.requests) if (requests === 0) socket.destroy();
  }

  private count(socket: Socket, change: number): void {
    const requests = this.requests.get(socket);
    if (requests !== undefined) this.requests.set(socket, requests + change);
  }
}

class Stopper {
  private stopping: Promise<void> | undefined;

  constructor(
    private readonly server: Server,
    private readonly connections: Connections,
    private readonly deps: Pick<AppDeps, 'engine'>,
    private readonly lifecycle: { draining: boolean },
  ) {}

  stop(timeout: number): Promise<void> {
    this.stopping ??= this.drain(timeout);
    return this.stopping;
  }

  async kill(): Promise<void> {
    this.lifecycle.draining = true;
    this.server.close();
    this.server.closeAllConnections();
    await this.deps.engine.close();
  }

  private async drain(timeout: number): Promise<void> {
    this.lifecycle.draining = true;
    const drained = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.server.closeIdleConnections();
    const unused = setTimeout(() => this.connections.closeUnused(), stragglers);
    if (!(await within(drained, timeout * 1000))) {
      // Ends every generation with an error, which streams still tell their readers.
      await this.deps.engine.close();
      await within(drained, lastWords);
      this.server.closeAllConnections();
      await drained;
    }
    clearTimeout(unused);
    await this.deps.engine.close();
  }
}

/** Whether a promise settles within so many milliseconds. */
async function within(promise: Promise<void>, milliseconds: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, milliseconds, false);
  });
  const inTime = await Promise.race([promise.then(() => true), late]);
  clearTimeout(timer);
  return inTime;
}
