/** Every request of a load as a bar in time: waiting for its first token, then receiving, or failed. */
import { scaleLinear } from 'd3-scale';
import type { RequestRecord } from '../record.js';
import type { LoadResult } from '../result.js';
import { formatNumber } from '../table.js';
import { drawPlot, escapeHtml, plotArea, px } from './svg.js';

/** More bars than this could not be told apart, and would only make the page large. */
const MAX_BARS = 1500;
const WIDTH = 940;

export function timelinePlot({ label, requests }: LoadResult): string {
  const shown = requests.toSorted((a, b) => a.sent - b.sent).slice(0, MAX_BARS);
  const rowHeight = Math.min(9, Math.max(1.2, 360 / Math.max(1, shown.length)));
  const size = { width: WIDTH, height: Math.ceil(72 + rowHeight * Math.max(8, shown.length)) };
  const area = plotArea(size);
  const end = Math.max(1, ...shown.map((request) => request.end)) / 1000;
  const x = scaleLinear().domain([0, end]).range([area.left, area.right]);

  const bars = shown.map((request, row) => {
    const y = area.top + rowHeight * (row + 0.5);
    const segment = (kind: string, from: number, to: number): string =>
      `<path class="bar ${kind}" stroke-width="${px(rowHeight * 0.8)}" d="M${px(x(from / 1000))} ${px(y)}H${px(Math.max(x(to / 1000), x(from / 1000) + 0.5))}"/>`;
    return `<g><title>${escapeHtml(describe(request))}</title>${segments(request, segment)}</g>`;
  });
  const left = requests.length - shown.length;
  const title = left > 0 ? `${label} (the first ${shown.length} of ${requests.length} requests)` : label;
  const frame = { ...size, title, xLabel: 'seconds since the start of the load', yLabel: 'one bar a request' };
  return drawPlot(frame, x, undefined, bars.join('\n'));
}

function segments(request: RequestRecord, draw: (kind: string, from: number, to: number) => string): string {
  const { answer, sent, end, outcome } = request;
  if (answer === undefined) return draw(outcome, sent, end);
  const first = sent + answer.ttft;
  return draw('waiting', sent, first) + draw('receiving', first, sent + answer.e2e);
}

function describe({ index, answer, failure, sent }: RequestRecord): string {
  const start = `request ${index}, sent at ${formatNumber(sent / 1000)} s`;
  if (answer === undefined) return `${start}: ${failure?.kind ?? 'given up'}`;
  return `${start}: TTFT ${formatNumber(answer.ttft)} ms, ${answer.outputTokens} tokens in ${formatNumber(answer.e2e)} ms`;
}
