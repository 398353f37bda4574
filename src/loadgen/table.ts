/** The results as text for a terminal. */
import type { LoadResult } from './result.js';
import type { Statistics } from './stats.js';
import { LATENCIES, type LoadSummary } from './summary.js';

/** Columns two spaces apart; all but the first are aligned to the right. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  }
  const line = (row: readonly string[]): string =>
    row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!))).join('  ');
  return rows.map((row) => line(row).trimEnd()).join('\n');
}

/** Three significant digits, and whole numbers from 100 on. */
export function formatNumber(value: number): string {
  if (value === 0) return '0';
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.min(3, Math.max(0, 2 - magnitude)));
}

const STATISTICS = ['mean', 'p50', 'p90', 'p95', 'p99'] as const satisfies readonly (keyof Statistics)[];

export const LATENCY_NAMES = { ttft: 'TTFT', tpot: 'TPOT', itl: 'ITL', e2e: 'end to end' } as const;

/** One block a load: what was done, a table of latencies, goodput, errors and warnings. */
export function formatLoad({ label, summary }: LoadResult): string {
  const rows = LATENCIES.flatMap((latency) => {
    const statistics = summary.latencies[latency];
    if (statistics === undefined) return [];
    return [[`  ${LATENCY_NAMES[latency]}`, ...STATISTICS.map((key) => formatNumber(statistics[key]))]];
  });
  return [
    `${label}: ${describe(summary)}`,
    formatTable([['  milliseconds', ...STATISTICS], ...rows]),
    ...goodputLine(summary),
    `  own delay   send p99 ${formatNumber(summary.own.send?.p99 ?? 0)} ms, event loop p99 ${formatNumber(summary.own.loop.p99)} ms, busy ${formatNumber(summary.own.utilization * 100)} %`,
    ...summary.errors.map(({ kind, count, example }) => `  error: ${count} x ${kind}, as "${example}"`),
    ...summary.warnings.map((warning) => `  warning: ${warning}`),
  ].join('\n');
}

function describe(summary: LoadSummary): string {
  const cached = summary.cachedTokens > 0 ? ` (${summary.cachedTokens} cached)` : '';
  const cancelled = summary.cancelled > 0 ? `, ${summary.cancelled} given up` : '';
  return [
    `${summary.completed} requests, ${summary.failed} failed${cancelled} in ${formatNumber(summary.duration / 1000)} s`,
    `  ${formatNumber(summary.requestThroughput)} requests/s, ${formatNumber(summary.outputThroughput)} output tokens/s, ` +
      `${formatNumber(summary.totalThroughput)} tokens/s in all`,
    `  ${summary.promptTokens} prompt tokens${cached}, ${summary.outputTokens} output tokens`,
  ].join('\n');
}

function goodputLine({ goodput }: LoadSummary): string[] {
  if (goodput === undefined) return [];
  const objective = Object.entries(goodput.slo).map(([metric, limit]) => `${metric} <= ${limit} ms`);
  const share = formatNumber(goodput.share * 100);
  return [`  goodput     ${formatNumber(goodput.throughput)} requests/s, ${share} % (${objective.join(', ')})`];
}

/** All loads side by side, one a row. */
export function formatOverview(loads: readonly LoadResult[]): string {
  const header = ['load', 'req/s', 'out tok/s', 'TTFT p50', 'p95', 'p99', 'TPOT p50', 'p95', 'p99', 'failed'];
  const rows = loads.map(({ label, summary }) => {
    const { ttft, tpot } = summary.latencies;
    const cells = [ttft?.p50, ttft?.p95, ttft?.p99, tpot?.p50, tpot?.p95, tpot?.p99];
    return [
      label,
      formatNumber(summary.requestThroughput),
      formatNumber(summary.outputThroughput),
      ...cells.map((value) => (value === undefined ? '-' : formatNumber(value))),
      String(summary.failed),
    ];
  });
  return formatTable([header, ...rows]);
}
