/** Latency percentiles against throughput: one point for each load, joined in the order of the load. */
import { line } from 'd3-shape';
import type { Load } from '../load.js';
import type { LoadResult } from '../result.js';
import type { Latency } from '../summary.js';
import { formatNumber, LATENCY_NAMES } from '../table.js';
import { drawPlot, escapeHtml, plotArea, px, valueScale } from './svg.js';

export const PERCENTILES = ['p50', 'p95', 'p99'] as const;
export const PERCENTILE_CLASSES = ['p50', 'p95', 'p99'] as const;

const SIZE = { width: 460, height: 270 };

/** @returns undefined when no load has the latency */
export function latencyPlot(loads: readonly LoadResult[], latency: Latency): string | undefined {
  const points = loads.flatMap(({ load, label, summary }) => {
    const statistics = summary.latencies[latency];
    return statistics === undefined ? [] : [{ load, label, statistics, throughput: summary.outputThroughput }];
  });
  if (points.length === 0) return undefined;

  const area = plotArea(SIZE);
  const x = valueScale(
    points.map((point) => point.throughput),
    [area.left, area.right],
  );
  const values = points.flatMap(({ statistics }) => PERCENTILES.map((key) => statistics[key]));
  const y = valueScale(values, [area.bottom, area.top + 12]);
  const groups = [
    points.filter(({ load }) => load.kind === 'closed'),
    points.filter(({ load }) => load.kind === 'open'),
  ];

  const marks = groups.flatMap((group) => {
    const ordered = group.toSorted((a, b) => size(a.load) - size(b.load));
    const curves = PERCENTILES.map((key, index) => {
      const path = line<(typeof ordered)[number]>()
        .x((point) => x(point.throughput))
        .y((point) => y(point.statistics[key]));
      const dots = ordered.map((point) => {
        const tip = `${point.label}: ${key} ${formatNumber(point.statistics[key])} ms at ${formatNumber(point.throughput)} tokens/s`;
        const at = `cx="${px(x(point.throughput))}" cy="${px(y(point.statistics[key]))}"`;
        return `<circle class="${PERCENTILE_CLASSES[index]}" ${at} r="4"><title>${escapeHtml(tip)}</title></circle>`;
      });
      return `<path class="curve ${PERCENTILE_CLASSES[index]}" d="${path.digits(1)(ordered) ?? ''}"/>${dots.join('')}`;
    });
    // Closed loads are named above their points and open ones below, as they may lie close to each other.
    const names = ordered.map(({ load, statistics, throughput }) => {
      const height = load.kind === 'closed' ? y(statistics.p99) - 8 : y(statistics.p50) + 16;
      const at = `x="${px(x(throughput))}" y="${px(height)}"`;
      return `<text class="tick" ${at} text-anchor="middle">${escapeHtml(shortLabel(load))}</text>`;
    });
    return [...curves, ...names];
  });
  const frame = { ...SIZE, title: LATENCY_NAMES[latency], xLabel: 'output tokens/s', yLabel: 'milliseconds' };
  return drawPlot(frame, x, y, marks.join('\n'));
}

function size(load: Load): number {
  return load.kind === 'closed' ? load.concurrency : load.rate;
}

function shortLabel(load: Load): string {
  if (load.kind === 'closed') return `${load.concurrency}`;
  return load.rate === Number.POSITIVE_INFINITY ? 'all' : `${load.rate}/s`;
}
