/** The Grafana dashboard of docs/grafana, and what its panels ask Prometheus. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Json } from './server.js';

const folder = new URL('../../docs/grafana/', import.meta.url);
export const dashboard: Json = JSON.parse(readFileSync(new URL('sluice.json', folder), 'utf8'));
export const alertsFile = fileURLToPath(new URL('alerts.yml', folder));

export interface PanelQuery {
  readonly panel: string;
  /** With the dashboard's variables replaced: any job, any model, rates over a minute. */
  readonly expression: string;
}

export const panelQueries: readonly PanelQuery[] = dashboard.panels.flatMap((panel: Json) =>
  (panel.targets ?? []).map(({ expr }: Json) => ({
    panel: panel.title,
    expression: expr.replaceAll('$__rate_interval', '1m').replaceAll(/\$(?:job|model)\b/g, '.*'),
  })),
);

/** Names of the metrics in an expression. */
export function metricNames(expression: string): string[] {
  return [...expression.matchAll(/\b((?:vllm:|sluice_|http_|process_|nodejs_)\w+)/g)].map(([, name]) => name!);
}
