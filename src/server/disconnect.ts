/** Notices that a client has gone, so that nothing is generated for nobody. */
import type { AppContext } from './context.js';

/** Status that the log has for requests whose client left; it is never sent. */
export const clientClosed = 499;

export interface Disconnect {
  /** Aborted when the client goes away, or by `abort`. */
  readonly signal: AbortSignal;
  abort(): void;
  /** Stops watching; call when the answer has been sent. */
  dispose(): void;
}

/**
 * Watches a request's client. The request's own signal follows the response; the socket is watched too, because a
 * request that was pipelined behind another has no response on the socket yet.
 */
export function watchDisconnect(c: AppContext): Disconnect {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const request = c.req.raw.signal;
  const socket = c.env?.incoming?.socket;
  if (request.aborted || socket?.destroyed) abort();
  request.addEventListener('abort', abort, { once: true });
  socket?.once('close', abort);
  return {
    signal: controller.signal,
    abort,
    dispose: () => {
      request.removeEventListener('abort', abort);
      socket?.off('close', abort);
    },
  };
}
