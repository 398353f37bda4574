/**
 * A result as one HTML page that needs nothing else: plots are SVG drawn here, there is no script, and a content security
 * policy keeps the page from asking any host for anything.
 */
import type { BenchResult, LoadResult } from '../result.js';
import { LATENCIES } from '../summary.js';
import { formatNumber, LATENCY_NAMES } from '../table.js';
import { histogramPlot, loadClass } from './histogram-plot.js';
import { latencyPlot, PERCENTILE_CLASSES, PERCENTILES } from './latency-plot.js';
import { STYLE } from './style.js';
import { escapeHtml, legend } from './svg.js';
import { timelinePlot } from './timeline-plot.js';

export function renderReport(result: BenchResult): string {
  const { loads, model, client, startedAt } = result;
  const labels = loads.map((load) => load.label);
  const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>${escapeHtml(model)}: load test</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escapeHtml(model)}</h1>
<p class="soft">Load test of ${escapeHtml(startedAt.slice(0, 16).replace('T', ' '))} UTC, from ${escapeHtml(client.cpu)},
${client.cores} cores, Node ${escapeHtml(client.node)}</p>
<h2>Loads</h2>
${overviewTable(loads)}
${notes(loads)}
<h2>Latency against throughput</h2>
<p class="soft">One point for each load: the number of requests at once, or of requests a second (/s).</p>
${legend(PERCENTILES, PERCENTILE_CLASSES)}
<div class="grid2">${figures(LATENCIES.map((latency) => latencyPlot(loads, latency)))}</div>
<h2>Distribution of latencies</h2>
${legend(
  labels,
  labels.map((_, index) => loadClass(index)),
)}
<div class="grid2">${figures(LATENCIES.map((latency) => histogramPlot(loads, latency)))}</div>
<h2>Requests in time</h2>
${legend(['waiting for the first token', 'receiving tokens', 'failed'], ['waiting', 'receiving', 'failed'])}
${loads.map((load) => `<figure class="wide">${timelinePlot(load)}</figure>`).join('\n')}
<h2>Settings</h2>
<dl>${Object.entries(result.settings).map(setting).join('')}</dl>
</body>
</html>
`;
}

function figures(plots: readonly (string | undefined)[]): string {
  return plots.map((plot) => (plot === undefined ? '' : `<figure>${plot}</figure>`)).join('\n');
}

function setting([name, value]: readonly [string, unknown]): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return `<dt>${escapeHtml(name)}</dt><dd>${escapeHtml(text ?? '')}</dd>`;
}

function overviewTable(loads: readonly LoadResult[]): string {
  const percentiles = LATENCIES.flatMap((latency) => PERCENTILES.map((key) => ({ latency, key })));
  const head = ['load', 'done', 'failed', 'req/s', 'tokens/s', ...percentiles.map(({ key }) => key), 'goodput'];
  const rows = loads.map(({ label, summary }) => [
    label,
    String(summary.completed),
    String(summary.failed),
    formatNumber(summary.requestThroughput),
    formatNumber(summary.outputThroughput),
    ...percentiles.map(({ latency, key }) => {
      const statistics = summary.latencies[latency];
      return statistics === undefined ? '' : formatNumber(statistics[key]);
    }),
    summary.goodput === undefined ? '' : `${formatNumber(summary.goodput.share * 100)} %`,
  ]);
  const groups = LATENCIES.map((latency) => `<th colspan="3">${LATENCY_NAMES[latency]} ms</th>`).join('');
  const row = (cells: readonly string[], tag: 'th' | 'td'): string =>
    `<tr>${cells.map((cell) => `<${tag}>${escapeHtml(cell)}</${tag}>`).join('')}</tr>`;
  return `<div class="scroll"><table><thead><tr><th colspan="5"></th>${groups}<th></th></tr>${row(head, 'th')}</thead>
<tbody>${rows.map((cells) => row(cells, 'td')).join('\n')}</tbody></table></div>`;
}

function notes(loads: readonly LoadResult[]): string {
  return loads
    .flatMap(({ label, summary }) => [
      ...summary.warnings.map((text) => `<p class="warning">${escapeHtml(`${label}: ${text}`)}</p>`),
      ...summary.errors.map(
        ({ kind, count, example }) =>
          `<p class="failure">${escapeHtml(`${label}: ${count} failed with ${kind}, as "${example}"`)}</p>`,
      ),
    ])
    .join('\n');
}
