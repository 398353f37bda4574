/** Plots of the load tester's report as one SVG file that stands alone, light or dark as the reader's system is. */
import { PERCENTILES } from '../../src/loadgen/report/latency-plot.js';
import { escapeHtml } from '../../src/loadgen/report/svg.js';

const STYLE = `
:root { --ink: #1d2329; --soft: #69737d; --rule: #e4e6e8; --p50: #7fb2d9; --p95: #2f7fb8; --p99: #123f66; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --soft: #98a2ac; --rule: #2f353b; --p50: #3b6f96; --p95: #5ba6dc; --p99: #c4e2f7; } }
text { font: 11px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--soft); }
.title { font-size: 13px; font-weight: 600; fill: var(--ink); }
.grid { stroke: var(--rule); fill: none; } .axis { stroke: var(--soft); fill: none; } .curve { fill: none; stroke-width: 1.6; }
.curve.p50 { stroke: var(--p50); } .curve.p95 { stroke: var(--p95); } .curve.p99 { stroke: var(--p99); }
circle.p50 { fill: var(--p50); } circle.p95 { fill: var(--p95); } circle.p99 { fill: var(--p99); }`;

const LEGEND_HEIGHT = 24;

/**
 * @param title what it shows, for those who cannot see it
 * @param plots of one size each, side by side; `<svg viewBox="0 0 width height">`
 */
export function figure(title: string, plots: readonly string[]): string {
  let x = 0;
  let height = 0;
  const placed = plots.map((plot) => {
    const [, w, h] = /^<svg viewBox="0 0 (\d+) (\d+)"/.exec(plot) ?? [];
    if (w === undefined || h === undefined) throw new Error('a plot does not begin with its size');
    const at = plot.replace('<svg ', `<svg x="${x}" y="${LEGEND_HEIGHT}" width="${w}" height="${h}" `);
    x += Number(w);
    height = Math.max(height, LEGEND_HEIGHT + Number(h));
    return at;
  });
  const legend = PERCENTILES.map((name, index) => {
    const left = 56 + index * 60;
    return `<circle class="${name}" cx="${left}" cy="12" r="4"/><text x="${left + 8}" y="16">${name}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${x} ${height}">
<title>${escapeHtml(title)}</title>
<style>${STYLE}
</style>
${legend.join('\n')}
${placed.join('\n')}
</svg>
`;
}
