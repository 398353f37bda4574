/** How much may wait: bounds by requests, by tokens of their prompts and by time, and what to say beyond them. */
import type { EngineFault, Seconds } from '../protocol.js';
import type { QueueState } from './limits.js';

export interface QueueLimits {
  /** Requests that wait at the same time, at most, beside those for which there is a slot; any number if not given. */
  readonly maxWaiting?: number | undefined;
  /** Tokens of the prompts that wait, at most; any number if not given. One prompt may wait, however long. */
  readonly maxWaitingTokens?: number | undefined;
  /** How long a request may wait to be started; any time if not given. */
  readonly queueTimeout?: Seconds | undefined;
}

/** Why a further prompt cannot wait; undefined when it can. */
export function queueFull(promptTokens: number, queue: QueueState, limits: QueueLimits): string | undefined {
  const { maxWaiting = Number.POSITIVE_INFINITY, maxWaitingTokens = Number.POSITIVE_INFINITY } = limits;
  const waiting = Math.max(0, queue.requests - queue.freeSlots);
  if (queue.requests >= queue.freeSlots && waiting >= maxWaiting) {
    return `${waiting} requests wait already, and no more than ${maxWaiting} may.`;
  }
  if (queue.requests > 0 && queue.tokens + promptTokens > maxWaitingTokens) {
    return `Prompts of ${queue.tokens} tokens wait already, and no more than ${maxWaitingTokens} may.`;
  }
  return undefined;
}

export function queueFullFault(reason: string, retryAfter: Seconds | undefined): EngineFault {
  return { code: 'queue_full', message: `The server is busy: ${reason} Try again later.`, ...hint(retryAfter) };
}

export function timeoutFault(waited: Seconds, retryAfter: Seconds | undefined): EngineFault {
  const time = waited < 10 ? waited.toFixed(1) : waited.toFixed(0);
  return {
    code: 'timeout',
    message: `The request waited ${time} s without being started, which is as long as it may. Nothing was generated.`,
    ...hint(retryAfter),
  };
}

function hint(retryAfter: Seconds | undefined): { retryAfter?: Seconds } {
  return retryAfter === undefined ? {} : { retryAfter };
}
