/** Two plots side by side: what each batching policy serves, and its TTFT, against the rate of requests. */
import { line } from 'd3-shape';
import { drawPlot, escapeHtml, plotArea, px, valueScale } from '../../src/loadgen/report/svg.js';
import type { LoadSummary } from '../../src/loadgen/summary.js';
import { formatNumber } from '../../src/loadgen/table.js';

export interface Point {
  readonly policy: string;
  /** Requests a second that were offered. */
  readonly rate: number;
  readonly summary: LoadSummary;
}

const SIZE = { width: 420, height: 280 };
const LEGEND_HEIGHT = 24;

const COLORS: Readonly<Record<string, readonly [light: string, dark: string]>> = {
  none: ['#8a6d3b', '#d3b176'],
  static: ['#a2478c', '#e08fca'],
  dynamic: ['#3f8f4f', '#86d096'],
  continuous: ['#2f7fb8', '#5ba6dc'],
};

const style = (which: 0 | 1): string => {
  const [ink, soft, rule] = which === 0 ? ['#1d2329', '#69737d', '#e4e6e8'] : ['#e4e7ea', '#98a2ac', '#2f353b'];
  const policies = Object.entries(COLORS).map(
    ([name, colors]) => `.${name} { stroke: ${colors[which]}; } circle.${name} { fill: ${colors[which]}; }`,
  );
  return `text { fill: ${soft}; } .title { fill: ${ink}; } .grid { stroke: ${rule}; } .axis { stroke: ${soft}; } ${policies.join(' ')}`;
};

export function policyFigure(points: readonly Point[]): string {
  const plots = [
    plot(points, 'output tokens a second', 'tokens/s', ({ summary }) => summary.outputThroughput),
    plot(points, 'TTFT, p99', 'milliseconds', ({ summary }) => summary.latencies.ttft!.p99),
  ];
  const placed = plots.map((svg, i) => {
    const at = `x="${i * SIZE.width}" y="${LEGEND_HEIGHT}" width="${SIZE.width}" height="${SIZE.height}"`;
    return svg.replace('<svg ', `<svg ${at} `);
  });
  const legend = Object.keys(COLORS).map((name, i) => {
    const left = 56 + i * 96;
    return `<circle class="${name}" cx="${left}" cy="12" r="4"/><text x="${left + 8}" y="16">${name}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${2 * SIZE.width} ${SIZE.height + LEGEND_HEIGHT}">
<title>Throughput and TTFT of batching policies by rate of arrival</title>
<style>text { font: 11px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; } .title { font-size: 13px; font-weight: 600; }
.grid, .axis, .curve { fill: none; } .curve { stroke-width: 1.8; } ${style(0)}
@media (prefers-color-scheme: dark) { ${style(1)} }</style>
${legend.join('\n')}
${placed.join('\n')}
</svg>
`;
}

function plot(points: readonly Point[], title: string, yLabel: string, value: (point: Point) => number): string {
  const area = plotArea(SIZE);
  const rates = points.map(({ rate }) => rate);
  const x = valueScale(rates, [area.left, area.right]);
  const y = valueScale(points.map(value), [area.bottom, area.top + 12]);
  const marks = Object.keys(COLORS).map((policy) => {
    const own = points.filter((point) => point.policy === policy);
    const path = line<Point>()
      .x(({ rate }) => x(rate))
      .y((point) => y(value(point)));
    const dots = own.map((point) => {
      const tip = `${policy}: ${formatNumber(value(point))} at ${formatNumber(point.rate)} requests/s`;
      return `<circle class="${policy}" cx="${px(x(point.rate))}" cy="${px(y(value(point)))}" r="3.5"><title>${escapeHtml(tip)}</title></circle>`;
    });
    return `<path class="curve ${policy}" d="${path.digits(1)(own) ?? ''}"/>${dots.join('')}`;
  });
  return drawPlot({ ...SIZE, title, xLabel: 'requests/s offered', yLabel }, x, y, marks.join('\n'));
}
