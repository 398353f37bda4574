import { describe, expect, it } from 'vitest';
import { Pace, type Way } from '../../../src/model/backends/cpu/pace.js';

const EXPECTATION = { whole: 10, divided: 12 };

/** Lets the pace choose so many steps that take so long each way; how many were divided. */
function play(pace: Pace, steps: number, took: (way: Way, step: number) => number): number {
  let divided = 0;
  for (let step = 0; step < steps; step++) {
    const way = pace.choose(EXPECTATION);
    if (way === 'divided') divided++;
    pace.record(way, EXPECTATION, took(way, step));
  }
  return divided;
}

describe('the pace of steps', () => {
  it('trusts expectations before anything is measured', () => {
    expect(new Pace().choose({ whole: 10, divided: 12 })).toBe('whole');
    expect(new Pace().choose({ whole: 12, divided: 10 })).toBe('divided');
  });

  it('never tries a way that is expected to take far longer', () => {
    const pace = new Pace();
    for (let step = 0; step < 1000; step++) {
      expect(pace.choose({ whole: 10, divided: 16 })).toBe('whole');
      pace.record('whole', { whole: 10, divided: 16 }, 100);
    }
    expect(pace.choose({ whole: 16, divided: 10 })).toBe('divided');
  });

  it('stays with the faster way and tries the other now and then', () => {
    const divided = play(new Pace(), 1000, (way) => (way === 'whole' ? 20 : 30));
    expect(divided).toBeGreaterThan(2);
    expect(divided).toBeLessThan(30);
  });

  it('learns that expectations are wrong here', () => {
    expect(play(new Pace(), 1000, (way) => (way === 'whole' ? 40 : 25))).toBeGreaterThan(900);
  });

  it('follows a machine that changes, both ways', () => {
    const pace = new Pace();
    const took = (slow: boolean) => (way: Way) => (way === 'divided' ? 24 : slow ? 40 : 20);
    play(pace, 300, took(false));
    expect(play(pace, 300, took(true))).toBeGreaterThan(240);
    expect(play(pace, 600, took(false))).toBeLessThan(300);
    expect(play(pace, 300, took(false))).toBeLessThan(30);
  });

  it('is not misled by single steps that were held up, the first ones included', () => {
    const divided = play(
      new Pace(),
      2000,
      (way, step) => (way === 'divided' ? 20 : 40) * (step < 4 || step % 50 === 0 ? 10 : 1),
    );
    expect(divided).toBeGreaterThan(1800);
  });

  it('does not record a step that failed', async () => {
    const pace = new Pace();
    await expect(pace.time('whole', EXPECTATION, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(await pace.time('whole', EXPECTATION, async (way) => way)).toBe('whole');
  });
});
