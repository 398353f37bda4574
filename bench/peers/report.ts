/** The comparison's results as rows of tables: medians, ratios within the rounds, and what disturbed them. */
import { formatNumber, median } from '../support/statistics.js';
import type { Sample } from './compare.js';
import type { Figures } from './figures.js';
import type { Cell } from './workload.js';

/** A column of the table. */
export interface Measure {
  readonly name: string;
  readonly cell: string;
  readonly figure: 'prefill' | 'decode' | 'endToEnd';
}

export function measuresOf(cells: readonly Cell[]): Measure[] {
  const prefill = cells.filter(({ kind }) => kind === 'prefill');
  const generate = cells.filter(({ kind }) => kind === 'generate');
  return [
    ...prefill.map(({ name, streams }): Measure => {
      return { name: `prefill, ${streams} prompt${streams === 1 ? '' : 's'}`, cell: name, figure: 'prefill' };
    }),
    ...generate.map(({ name, streams }): Measure => ({ name: `decode, ${streams}`, cell: name, figure: 'decode' })),
    ...generate.map(
      ({ name, streams }): Measure => ({ name: `end to end, ${streams}`, cell: name, figure: 'endToEnd' }),
    ),
  ];
}

/** Tokens a second of an engine, by round. */
export function ratesOf(samples: readonly Sample[], engine: string, { cell, figure }: Measure): number[] {
  return samples
    .filter((sample) => sample.engine === engine && sample.cell === cell)
    .map(({ figures }) => rate(figures, figure));
}

function rate(figures: Figures, figure: Measure['figure']): number {
  const value = figures[figure];
  if (value === undefined) throw new Error(`there is no ${figure} of prompts alone`);
  return value;
}

/** The median over the rounds of a's rate over b's in the same round. */
export function ratioOf(a: readonly number[], b: readonly number[]): number {
  return median(a.map((value, round) => value / b[round]!));
}

export function rateTable(
  samples: readonly Sample[],
  engines: readonly string[],
  measures: readonly Measure[],
): string[][] {
  const rows = measures.map((measure) => [
    measure.name,
    ...engines.map((engine) => formatNumber(median(ratesOf(samples, engine, measure)))),
  ]);
  return [['tokens/s, median', ...engines], ...rows];
}

/** How many times an engine of ours is as fast as each other, and as the fastest of them in each round. */
export function ratioTable(
  samples: readonly Sample[],
  ours: string,
  others: readonly string[],
  measures: readonly Measure[],
): string[][] {
  const rows = measures.map((measure) => {
    const own = ratesOf(samples, ours, measure);
    const rates = others.map((other) => ratesOf(samples, other, measure));
    const best = own.map((_, round) => Math.max(...rates.map((values) => values[round]!)));
    return [measure.name, ...[...rates, best].map((values) => ratioOf(own, values).toFixed(2))];
  });
  return [[`${ours} over`, ...others, 'the best'], ...rows];
}

/** Of each engine over all its runs: processors it used, and the share of the machine that others had meanwhile. */
export function noiseTable(samples: readonly Sample[], engines: readonly string[], processors: number): string[][] {
  const rows = engines.map((engine) => {
    const uses = samples.filter((sample) => sample.engine === engine).map(({ cpu }) => cpu);
    const wall = uses.reduce((sum, use) => sum + use.wall, 0);
    const share = (seconds: number): string => `${((100 * seconds) / (wall * processors)).toFixed(1)} %`;
    const sum = (key: 'own' | 'others' | 'stolen'): number => uses.reduce((total, use) => total + use[key], 0);
    return [engine, (sum('own') / wall).toFixed(2), share(sum('others')), share(sum('stolen'))];
  });
  return [['while it ran', 'processors it used', 'others took', 'stolen'], ...rows];
}
