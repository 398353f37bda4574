import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { now } from '../../src/engine/clock.js';
import { watchProgress } from '../../src/server/watchdog.js';
import { FakeEngine } from '../support/fake-engine.js';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('the watchdog', () => {
  it('tells once of a stall and once of its end', () => {
    const engine = new FakeEngine();
    const told: string[] = [];
    const stop = watchProgress({ engine }, 10, {
      onStalled: (overdue) => told.push(`stalled ${Math.round(overdue)}`),
      onRecovered: () => told.push('recovered'),
    });
    engine.stepDueSince = now() - 9;
    vi.advanceTimersByTime(5000);
    expect(told).toEqual([]);
    engine.stepDueSince = now() - 12;
    vi.advanceTimersByTime(5000);
    expect(told).toEqual(['stalled 12']);
    engine.stepDueSince = now();
    vi.advanceTimersByTime(5000);
    engine.stepDueSince = undefined;
    vi.advanceTimersByTime(5000);
    expect(told).toEqual(['stalled 12', 'recovered']);
    engine.stepDueSince = now() - 11;
    vi.advanceTimersByTime(1000);
    expect(told).toHaveLength(3);
    stop();
    engine.stepDueSince = undefined;
    vi.advanceTimersByTime(5000);
    expect(told).toHaveLength(3);
  });
});
