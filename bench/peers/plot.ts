/** The comparison as one SVG picture: a panel of bars for each measure, a line across each bar from least to most. */
import { scaleLinear } from 'd3-scale';
import { escapeHtml, px } from '../../src/loadgen/report/svg.js';
import { formatNumber, median } from '../support/statistics.js';
import type { Sample } from './compare.js';
import { type Measure, ratesOf } from './report.js';

const COLUMNS = 2;
const PANEL = { width: 480, gap: 28, title: 26, bar: 15, step: 21, names: 150, value: 56 };
const STYLE = `
:root { --ink: #1d2329; --soft: #69737d; --ours: #2f7fb8; --other: #b9c2ca; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --soft: #98a2ac; --ours: #5ba6dc; --other: #48535d; } }
text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--soft); }
.title { font-size: 16px; } .title, .measure { font-weight: 600; } .title, .measure, .name { fill: var(--ink); }
.ours { fill: var(--ours); } .other { fill: var(--other); } .spread { stroke: var(--ink); }`;

export interface PlottedEngine {
  readonly name: string;
  readonly ours: boolean;
}

export function drawComparison(
  title: string,
  samples: readonly Sample[],
  engines: readonly PlottedEngine[],
  measures: readonly Measure[],
): string {
  const panelHeight = PANEL.title + engines.length * PANEL.step + PANEL.gap;
  const rows = Math.ceil(measures.length / COLUMNS);
  const width = COLUMNS * PANEL.width + (COLUMNS + 1) * PANEL.gap;
  const height = 48 + rows * panelHeight;
  const panels = measures.map((measure, index) => {
    const x = PANEL.gap + (index % COLUMNS) * (PANEL.width + PANEL.gap);
    const y = 48 + Math.floor(index / COLUMNS) * panelHeight;
    return `<g transform="translate(${x} ${y})">${panel(measure, samples, engines)}</g>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
<text class="title" x="${PANEL.gap}" y="28">${escapeHtml(title)}</text>
${panels.join('\n')}
</svg>
`;
}

function panel(measure: Measure, samples: readonly Sample[], engines: readonly PlottedEngine[]): string {
  const rates = engines.map(({ name }) => ratesOf(samples, name, measure));
  const scale = scaleLinear([0, Math.max(...rates.flat())], [PANEL.names, PANEL.width - PANEL.value]);
  const bars = engines.map(({ name, ours }, index) => {
    const values = rates[index]!;
    const middle = median(values);
    const y = PANEL.title + index * PANEL.step;
    const line = y + PANEL.bar / 2;
    const [least, most] = [Math.min(...values), Math.max(...values)];
    return `<text class="name" x="${PANEL.names - 8}" y="${y + 12}" text-anchor="end">${escapeHtml(name)}</text>
<rect x="${PANEL.names}" y="${y}" width="${px(scale(middle) - PANEL.names)}" height="${PANEL.bar}" class="${ours ? 'ours' : 'other'}"/>
<path d="M${px(scale(least))} ${line}H${px(scale(most))}" class="spread"/>
<text x="${px(scale(most) + 6)}" y="${y + 12}">${formatNumber(middle)}</text>`;
  });
  return `<text class="measure" x="0" y="14">${escapeHtml(measure.name)}</text>
<text x="${PANEL.width}" y="14" text-anchor="end">tokens/s</text>
${bars.join('\n')}`;
}
