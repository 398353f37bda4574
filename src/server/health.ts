/** What the server says about its own state: to load balancers by status, to people in numbers. */
import type { EngineState } from '../engine/client.js';
import { now } from '../engine/clock.js';
import type { AppDeps } from './context.js';

/** `stalled`: work waits, but the engine has not ended a step for longer than `progressTimeout`. */
export type HealthStatus = 'ok' | 'stalled' | Exclude<EngineState, 'ready'>;

export interface Health {
  readonly status: HealthStatus;
  /** Seconds since the last step ended; null before the first. */
  readonly last_step_age: number | null;
  /** Seconds for which a step has been due; 0 without work. */
  readonly step_overdue: number;
  /** Above so many it is stalled. */
  readonly progress_timeout: number;
}

export function healthOf(deps: Pick<AppDeps, 'engine' | 'lifecycle' | 'config'>): Health {
  const { engine, config } = deps;
  const last = engine.stats?.time;
  const overdue = stepOverdue(deps);
  return {
    status: statusOf(deps, overdue > config.progressTimeout),
    last_step_age: last === undefined ? null : milliseconds(now() - last),
    step_overdue: milliseconds(overdue),
    progress_timeout: config.progressTimeout,
  };
}

/** Seconds for which the engine has owed a step; 0 while none is due. */
export function stepOverdue({ engine }: Pick<AppDeps, 'engine'>): number {
  return engine.stepDueSince === undefined ? 0 : Math.max(0, now() - engine.stepDueSince);
}

function statusOf({ engine, lifecycle }: Pick<AppDeps, 'engine' | 'lifecycle'>, stalled: boolean): HealthStatus {
  if (engine.state === 'failed' || engine.state === 'closed') return engine.state;
  if (lifecycle?.draining) return 'draining';
  if (engine.state !== 'ready') return engine.state;
  return stalled ? 'stalled' : 'ok';
}

function milliseconds(seconds: number): number {
  return Math.max(0, Math.round(seconds * 1000) / 1000);
}
