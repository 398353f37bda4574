/** Simulations as text for a terminal: one column a load. */
import type { Statistics } from '../loadgen/stats.js';
import { formatNumber, formatTable } from '../loadgen/table.js';
import type { Summary } from './tally.js';

const PERCENTILES = ['p50', 'p95', 'p99'] as const satisfies readonly (keyof Statistics)[];

type Row = readonly [name: string, value: (summary: Summary) => string];

const percent = (share: number): string => `${formatNumber(share * 100)} %`;

const rows: readonly Row[] = [
  ['requests', ({ requests }) => String(requests)],
  ['refused or overdue', ({ refused, overdue }) => String(refused + overdue)],
  ['simulated time, s', ({ duration }) => formatNumber(duration)],
  ['requests/s', ({ requestsPerSecond }) => formatNumber(requestsPerSecond)],
  ['output tokens/s', ({ outputTokensPerSecond }) => formatNumber(outputTokensPerSecond)],
  ['tokens/s in all', ({ tokensPerSecond }) => formatNumber(tokensPerSecond)],
  ...latency('TTFT', ({ ttft }) => ttft),
  ...latency('TPOT', ({ tpot }) => tpot),
  ...latency('end to end', ({ e2e }) => e2e),
  ['time in steps', ({ utilization }) => percent(utilization)],
  ['tokens a step', ({ tokensPerStep }) => formatNumber(tokensPerStep)],
  ['running, mean', ({ running }) => formatNumber(running)],
  ['waiting, mean', ({ waiting }) => formatNumber(waiting)],
  ['blocks held, mean', ({ blocksUsed }) => percent(blocksUsed)],
  ['blocks held, most', ({ blocksUsedMost }) => percent(blocksUsedMost)],
  ['slots of them empty', ({ waste }) => percent(waste)],
  ['preemptions', ({ preemptions }) => String(preemptions)],
  ['prompt tokens cached', ({ prefixHits }) => percent(prefixHits)],
];

function latency(name: string, of: (summary: Summary) => Statistics | undefined): Row[] {
  return PERCENTILES.map((key): Row => {
    return [
      `${name} ${key}, ms`,
      (summary) => {
        const value = of(summary)?.[key];
        return value === undefined ? '-' : formatNumber(value);
      },
    ];
  });
}

export function formatSimulations(results: readonly { readonly label: string; readonly summary: Summary }[]): string {
  const header = ['', ...results.map(({ label }) => label)];
  return formatTable([header, ...rows.map(([name, value]) => [name, ...results.map(({ summary }) => value(summary))])]);
}
