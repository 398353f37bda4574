/** The frame of a plot as SVG text: title, axes, grid and legend around marks drawn by the caller. */
import { type ScaleContinuousNumeric, scaleLinear, scaleLog } from 'd3-scale';
import { formatNumber } from '../table.js';

export type Scale = ScaleContinuousNumeric<number, number>;

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** A coordinate, to a tenth of a pixel. */
export function px(value: number): string {
  return String(Math.round(value * 10) / 10);
}

export interface PlotArea {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export interface Frame {
  readonly title: string;
  readonly width: number;
  readonly height: number;
  readonly xLabel: string;
  readonly yLabel: string;
}

const MARGIN = { left: 52, top: 30, right: 16, bottom: 42 };

export function plotArea({ width, height }: Pick<Frame, 'width' | 'height'>): PlotArea {
  return { left: MARGIN.left, top: MARGIN.top, right: width - MARGIN.right, bottom: height - MARGIN.bottom };
}

/** Over this ratio of the largest to the smallest value, a linear axis would hide the small ones. */
const LOG_RATIO = 40;

/** From 0 to a round number above the largest value, or logarithmic when values are far apart. */
export function valueScale(values: readonly number[], range: readonly [number, number]): Scale {
  const high = Math.max(...values, 0);
  const low = Math.min(...values.filter((value) => value > 0));
  const logarithmic = Number.isFinite(low) && high / low > LOG_RATIO;
  return logarithmic ? scaleLog().domain([low, high]).nice().range(range) : linearScale(high, range);
}

/** From 0 to a round number that is `high` or above. */
export function linearScale(high: number, range: readonly [number, number]): Scale {
  return scaleLinear()
    .domain([0, high > 0 ? high : 1])
    .nice()
    .range(range);
}

/** About `count` round numbers on the axis: of a logarithmic one, those that start with 1, 2 or 5. */
function axisTicks(scale: Scale, count: number): number[] {
  const ticks = scale.ticks(count);
  if (ticks.length <= 2 * count) return ticks;
  const leading = (value: number): number => Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9));
  const round = ticks.filter((value) => [1, 2, 5].includes(leading(value)));
  return round.length <= 2 * count ? round : round.filter((value) => leading(value) === 1);
}

const formatTick = (value: number): string =>
  value >= 10_000 ? `${formatNumber(value / 1000).replace(/\.0+$/, '')}k` : String(Number(value.toPrecision(3)));

/**
 * @param y undefined for a plot without a vertical axis
 * @param marks SVG elements, in pixels of the whole picture
 */
export function drawPlot(frame: Frame, x: Scale, y: Scale | undefined, marks: string): string {
  const area = plotArea(frame);
  const grid: string[] = [];
  for (const tick of axisTicks(x, 6)) {
    const at = px(x(tick));
    grid.push(`<path class="grid" d="M${at} ${area.top}V${area.bottom}"/>`);
    grid.push(`<text class="tick" x="${at}" y="${area.bottom + 15}" text-anchor="middle">${formatTick(tick)}</text>`);
  }
  for (const tick of y === undefined ? [] : axisTicks(y, 5)) {
    const at = y!(tick);
    grid.push(`<path class="grid" d="M${area.left} ${px(at)}H${area.right}"/>`);
    grid.push(
      `<text class="tick" x="${area.left - 6}" y="${px(at + 3.5)}" text-anchor="end">${formatTick(tick)}</text>`,
    );
  }
  const middle = px((area.left + area.right) / 2);
  return `<svg viewBox="0 0 ${frame.width} ${frame.height}" role="img" aria-label="${escapeHtml(frame.title)}">
<text class="title" x="${area.left}" y="17">${escapeHtml(frame.title)}</text>
<text class="label" x="${area.right}" y="17" text-anchor="end">${escapeHtml(frame.yLabel)}</text>
${grid.join('')}
${marks}
<path class="axis" d="M${area.left} ${area.bottom}H${area.right}"/>
<text class="label" x="${middle}" y="${frame.height - 8}" text-anchor="middle">${escapeHtml(frame.xLabel)}</text>
</svg>`;
}

/** A row of names, each with the colour of its marks: `classes[i]` is the class of the i-th. */
export function legend(names: readonly string[], classes: readonly string[]): string {
  const items = names.map((name, index) => `<span><i class="${classes[index]}"></i>${escapeHtml(name)}</span>`);
  return `<p class="legend">${items.join('')}</p>`;
}
