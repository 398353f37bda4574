/**
 * Spreads a burst of requests over turns of the event loop: a thousand that come at once would else hold up probes,
 * streams and everything else for as long as it takes to look at them all.
 */
import type { MiddlewareHandler } from 'hono';
import type { AppEnv } from './context.js';

/** Requests that begin in one turn: about 10 ms of reading and checking. */
const perTurn = 16;

export function pace(): MiddlewareHandler<AppEnv> {
  const waiting: (() => void)[] = [];
  let begun = 0;
  const turn = () => {
    begun = 0;
    for (const begin of waiting.splice(0, perTurn)) {
      begun++;
      begin();
    }
    if (begun > 0) setImmediate(turn);
  };
  return async (_, next) => {
    if (begun === 0) setImmediate(turn);
    if (begun < perTurn) begun++;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    await next();
  };
}
