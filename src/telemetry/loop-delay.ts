/**
 * How late the event loop is. A timer is due at fixed times; a loop that was held up for long missed several of them, and
 * each counts with its own lateness, so the histogram tells what an event at any moment would have waited. (Node's own
 * monitor adds its timer's interval to each delay, and prom-client's metrics of it start over at each scrape.)
 */
import type { BucketHistogram } from './histogram.js';

const intervalMs = 20;

/** @returns stops the measuring */
export function observeLoopDelay(histogram: BucketHistogram): () => void {
  let due = performance.now();
  let timer: NodeJS.Timeout | undefined;
  const tick = (): void => {
    due = observeDue(histogram, due, performance.now());
    // An interval would drift, and so would count its own drift.
    timer = setTimeout(tick, due - performance.now()).unref();
  };
  tick();
  return () => clearTimeout(timer);
}

/** Counts every time that was due by `now`; returns the next one. Milliseconds. */
export function observeDue(histogram: BucketHistogram, due: number, now: number): number {
  // Timers of Node may come a fraction of a millisecond early.
  if (now < due) {
    histogram.observe(0);
    return due + intervalMs;
  }
  for (; due <= now; due += intervalMs) histogram.observe((now - due) / 1000);
  return due;
}
