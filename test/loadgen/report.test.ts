import { describe, expect, it } from 'vitest';
import { renderReport } from '../../src/loadgen/report/page.js';
import { valueScale } from '../../src/loadgen/report/svg.js';
import { loadResult } from '../../src/loadgen/result.js';
import { sampleResult } from '../support/sample-result.js';

describe('the report', () => {
  it('holds no script and no address', () => {
    const page = renderReport(sampleResult());
    expect(page).not.toMatch(/<script|javascript:|https?:|url\(|@import/i);
  });

  it('never writes a coordinate that is not a number', () => {
    expect(renderReport(sampleResult())).not.toMatch(/NaN|Infinity|undefined/);
  });

  it('stands with loads in which nothing completed, and with none', () => {
    const own = { send: undefined, loop: { mean: 0, p99: 0, max: 0 }, utilization: 0 };
    const failure = { kind: 'connection', message: 'refused <b>' } as const;
    const request = {
      index: 0,
      outcome: 'failed',
      planned: 0,
      sent: 0,
      end: 1,
      connect: 0,
      maxTokens: 1,
      failure,
    } as const;
    const empty = loadResult({ load: { kind: 'closed', concurrency: 2 }, records: [request], own, startedAt: 0 });
    const page = renderReport({ ...sampleResult(), loads: [empty] });
    expect(page).toContain('concurrency 2: 1 failed with connection, as &#34;refused &#60;b&#62;&#34;');
    expect(page).not.toMatch(/NaN|Infinity|undefined/);
    expect(renderReport({ ...sampleResult(), loads: [] })).not.toMatch(/NaN|Infinity|undefined/);
  });

  it('shows at most so many bars as can be told apart, and says so', () => {
    const page = renderReport(sampleResult('m', [{ kind: 'closed', concurrency: 200 }]));
    expect(page).toContain('(the first 1500 of 2400 requests)');
    expect(page.match(/class="bar/g)!.length).toBeLessThanOrEqual(3000);
  });
});

describe('an axis of values', () => {
  it('starts at 0, and is logarithmic only where a linear one would hide the small values', () => {
    expect(valueScale([3, 97], [0, 100]).domain()).toEqual([0, 100]);
    expect(valueScale([2, 900], [0, 100]).domain()).toEqual([1, 1000]);
    expect(valueScale([0, 0], [0, 100]).domain()).toEqual([0, 1]);
    expect(valueScale([], [0, 100]).domain()).toEqual([0, 1]);
  });
});
