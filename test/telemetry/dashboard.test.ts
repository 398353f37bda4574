/** Dashboard, alerts and document tell of nothing that /metrics does not have, and leave out nothing of its own. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ServerMetrics } from '../../src/telemetry/metrics.js';
import { alertsFile, dashboard, metricNames, panelQueries } from '../support/dashboard.js';
import { Scrape } from '../support/exposition.js';
import { checkRules, prometheusIsMissing } from '../support/prometheus.js';
import { type Json, testApp } from '../support/server.js';

const metrics = new ServerMetrics({ model: 'fake-model', stepOverdue: () => 0 });
let samples: Set<string>;
beforeAll(async () => {
  const { completion } = testApp({ metrics });
  await completion({});
  const { families } = new Scrape(await metrics.text());
  samples = new Set([...families.values()].flatMap((family) => family.samples.map(({ name }) => name)));
});
afterAll(() => metrics.close());

describe('the dashboard', () => {
  it('has panels with names of their own, one data source and a place each', () => {
    const panels: Json[] = dashboard.panels.filter(({ type }: Json) => type !== 'row');
    expect(panels.length).toBeGreaterThan(15);
    expect(new Set(dashboard.panels.map(({ id }: Json) => id)).size).toBe(dashboard.panels.length);
    expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
    const places = new Set<string>();
    for (const { title, datasource, description, gridPos } of panels) {
      expect([title, datasource.uid, description.length > 10]).toEqual([title, `\${datasource}`, true]);
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
      places.add(`${gridPos.x}/${gridPos.y}`);
    }
    expect(places.size).toBe(panels.length);
  });

  it('asks only for what there is', () => {
    for (const { panel, expression } of panelQueries) {
      const names = metricNames(expression);
      expect(names.length, `${panel}: ${expression}`).toBeGreaterThan(0);
      for (const name of names) expect([panel, name, samples.has(name)]).toEqual([panel, name, true]);
    }
  });

  it('shows every histogram and counter of the engine', () => {
    const shown = panelQueries.flatMap(({ expression }) => metricNames(expression)).join('\n');
    const left = [...samples]
      .filter((name) => /^(vllm:|sluice_)/.test(name) && !/_(bucket|sum|count)$/.test(name))
      .filter((name) => !shown.includes(name));
    // Constant, and a plain count of steps.
    expect(left).toEqual(['sluice_steps_total', 'vllm:cache_config_info']);
  });
});

describe('docs/operate.md', () => {
  it('describes every metric, and none that is not there', () => {
    const text = readFileSync(new URL('../../docs/operate.md', import.meta.url), 'utf8');
    const rows = text.split('\n').filter((line) => line.startsWith('| `'));
    const described = rows.flatMap((row) => [...row.split(' | ')[0]!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!));
    const families = [...samples].map((name) => name.replace(/_(bucket|sum|count)$/, ''));
    const paths = described.filter((name) => name.startsWith('/'));
    expect(described.filter((name) => !paths.includes(name)).sort()).toEqual([...new Set(families)].sort());
    for (const name of metricNames(text)) expect([name, families.includes(name)]).toEqual([name, true]);
  });
});

describe('the alerts', () => {
  it('ask only for what there is', () => {
    const names = metricNames(readFileSync(alertsFile, 'utf8'));
    expect(names.length).toBeGreaterThan(5);
    for (const name of names) expect([name, samples.has(name)]).toEqual([name, true]);
  });

  it.skipIf(prometheusIsMissing)('are rules that Prometheus takes', async () => {
    expect(await checkRules(alertsFile)).toContain('SUCCESS');
  });
});
