/** The distribution of a latency for each load, as outlines over one axis. */
import { quantile } from 'd3-array';
import { curveStepAfter, line } from 'd3-shape';
import type { LoadResult } from '../result.js';
import { histogram } from '../stats.js';
import { type Latency, latencySamples } from '../summary.js';
import { LATENCY_NAMES } from '../table.js';
import { drawPlot, linearScale, plotArea } from './svg.js';

const SIZE = { width: 460, height: 230 };
const BINS = 48;
/** What lies beyond this share of a load's samples would leave little room for the rest. */
const SHOWN_SHARE = 0.995;

export function loadClass(index: number): string {
  return `load${index % 8}`;
}

/** @returns undefined when no load has the latency */
export function histogramPlot(loads: readonly LoadResult[], latency: Latency): string | undefined {
  const samples = loads.map(({ requests }) => {
    const answers = requests.map((request) => request.answer).filter((answer) => answer !== undefined);
    return latencySamples(answers)[latency];
  });
  const ends = samples.flatMap((values) => quantile(values, SHOWN_SHARE) ?? []);
  if (ends.length === 0) return undefined;

  const area = plotArea(SIZE);
  const x = linearScale(Math.max(...ends) * 1.02, [area.left, area.right]);
  const [low, high] = x.domain() as [number, number];
  const shares = samples.map((values) =>
    histogram(values, low, high, BINS).map((bin) => ({
      at: bin.low,
      share: (100 * bin.count) / Math.max(1, values.length),
    })),
  );
  const y = linearScale(Math.max(...shares.flat().map((bin) => bin.share)), [area.bottom, area.top]);
  const outline = line<{ at: number; share: number }>()
    .x((bin) => x(bin.at))
    .y((bin) => y(bin.share))
    .curve(curveStepAfter)
    .digits(1);
  const marks = shares.flatMap((bins, index) => {
    const closed = [{ at: low, share: 0 }, ...bins, { at: high, share: 0 }];
    return samples[index]!.length === 0
      ? []
      : [`<path class="area ${loadClass(index)}" d="${outline(closed) ?? ''}"/>`];
  });
  const frame = { ...SIZE, title: LATENCY_NAMES[latency], xLabel: 'milliseconds', yLabel: `% of ${SAMPLES[latency]}` };
  return drawPlot(frame, x, y, marks.join('\n'));
}

const SAMPLES: Readonly<Record<Latency, string>> = {
  ttft: 'requests',
  tpot: 'requests',
  itl: 'tokens',
  e2e: 'requests',
};
