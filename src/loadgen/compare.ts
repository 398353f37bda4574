/** Two result files side by side: for each load that both have, every figure and the ratio of B to A. */
import type { ComparableResult } from './result.js';
import { LATENCIES } from './summary.js';
import { formatNumber, formatTable, LATENCY_NAMES } from './table.js';

type ComparableLoad = ComparableResult['loads'][number];

export interface Comparison {
  readonly figure: string;
  readonly a: number;
  readonly b: number;
  /** b / a; not a number when both are 0. */
  readonly ratio: number;
  /** Whether more of it is better, as with throughput. */
  readonly moreIsBetter: boolean;
}

export function compareLoads(a: ComparableLoad, b: ComparableLoad): Comparison[] {
  const comparisons: Comparison[] = [];
  const add = (figure: string, moreIsBetter: boolean, left: number | undefined, right: number | undefined): void => {
    if (left === undefined || right === undefined) return;
    comparisons.push({ figure, a: left, b: right, ratio: right / left, moreIsBetter });
  };
  add('requests/s', true, a.summary.requestThroughput, b.summary.requestThroughput);
  add('output tokens/s', true, a.summary.outputThroughput, b.summary.outputThroughput);
  add('tokens/s in all', true, a.summary.totalThroughput, b.summary.totalThroughput);
  add('goodput requests/s', true, a.summary.goodput?.throughput, b.summary.goodput?.throughput);
  for (const latency of LATENCIES) {
    for (const statistic of ['mean', 'p50', 'p95', 'p99'] as const) {
      const name = `${LATENCY_NAMES[latency]} ${statistic} ms`;
      add(name, false, a.summary.latencies[latency]?.[statistic], b.summary.latencies[latency]?.[statistic]);
    }
  }
  add('failed', false, a.summary.failed, b.summary.failed);
  return comparisons;
}

/** @param names of A and B, for the head of the table */
export function formatComparison(a: ComparableResult, b: ComparableResult, names: readonly [string, string]): string {
  const blocks = a.loads.flatMap((load) => {
    const other = b.loads.find((candidate) => candidate.label === load.label);
    if (other === undefined) return [];
    const rows = compareLoads(load, other).map((line) => [
      `  ${line.figure}`,
      formatNumber(line.a),
      formatNumber(line.b),
      formatRatio(line),
    ]);
    return [formatTable([[load.label, 'A', 'B', 'B / A'], ...rows])];
  });
  const missing = [...onlyIn(a, b, 'A'), ...onlyIn(b, a, 'B')];
  return [
    `A: ${names[0]} (${a.model}, ${a.startedAt})\nB: ${names[1]} (${b.model}, ${b.startedAt})`,
    ...blocks,
    ...missing,
  ].join('\n\n');
}

function formatRatio({ ratio, moreIsBetter }: Comparison): string {
  if (!Number.isFinite(ratio)) return '-';
  const verdict = Math.abs(ratio - 1) < 0.005 ? '      ' : ratio > 1 === moreIsBetter ? 'better' : ' worse';
  return `${ratio.toFixed(2)} ${verdict}`;
}

function onlyIn(one: ComparableResult, other: ComparableResult, name: string): string[] {
  const labels = one.loads
    .map((load) => load.label)
    .filter((label) => !other.loads.some((load) => load.label === label));
  return labels.length === 0 ? [] : [`only in ${name}: ${labels.join(', ')}`];
}
