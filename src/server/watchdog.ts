/** Tells when the engine stalls and when it goes on, once each, so that the log has what health only answers when asked. */
import type { AppDeps } from './context.js';
import { stepOverdue } from './health.js';

export interface WatchdogReports {
  /** @param overdue seconds for which a step has been due */
  onStalled(overdue: number): void;
  onRecovered(): void;
}

const lookEveryMs = 1000;

/**
 * @param progressTimeout seconds that a step may take
 * @returns stops the watching
 */
export function watchProgress(
  deps: Pick<AppDeps, 'engine'>,
  progressTimeout: number,
  reports: WatchdogReports,
): () => void {
  let stalled = false;
  const timer = setInterval(() => {
    const overdue = stepOverdue(deps);
    const now = overdue > progressTimeout;
    if (now && !stalled) reports.onStalled(overdue);
    if (!now && stalled) reports.onRecovered();
    stalled = now;
  }, lookEveryMs);
  timer.unref();
  return () => clearInterval(timer);
}
