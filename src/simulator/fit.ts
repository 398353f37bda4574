/** Fits weights that are not negative to measurements: least squares of the relative error, by coordinate descent. */

export interface Measurement {
  /** What each weight counts. */
  readonly terms: readonly number[];
  /** The weighted sum as it was measured, above 0. */
  readonly value: number;
}

export interface Fit {
  readonly weights: number[];
  /** Mean size of the relative error. */
  readonly error: number;
}

const SWEEPS = 20_000;
const REWEIGHTINGS = 4;

/**
 * Minimizes the sum of ((value - terms . weights) / expected)^2 over weights >= 0, where what is expected is the fit
 * itself: relative to what was measured, values that are too high by chance would count less than those that are too low.
 */
export function fitWeights(measurements: readonly Measurement[]): Fit {
  let scales = measurements.map(({ value }) => value);
  let weights: number[] = [];
  for (let i = 0; i < REWEIGHTINGS; i++) {
    weights = descend(measurements, scales);
    scales = measurements.map(({ terms, value }) => weigh(terms, weights) || value);
  }
  const errors = measurements.map(({ value }, i) => Math.abs(1 - value / scales[i]!));
  return { weights, error: errors.reduce((sum, error) => sum + error, 0) / Math.max(1, errors.length) };
}

/** The problem is convex, so descent along one weight at a time finds its minimum. */
function descend(measurements: readonly Measurement[], scales: readonly number[]): number[] {
  const count = measurements[0]?.terms.length ?? 0;
  // Normal equations: gram * weights = target.
  const gram = Array.from({ length: count }, () => new Float64Array(count));
  const target = new Float64Array(count);
  measurements.forEach(({ terms, value }, n) => {
    const scale = scales[n]! ** 2;
    for (let i = 0; i < count; i++) {
      target[i]! += (terms[i]! * value) / scale;
      for (let j = 0; j < count; j++) gram[i]![j]! += (terms[i]! * terms[j]!) / scale;
    }
  });
  const weights = new Array<number>(count).fill(0);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    let moved = 0;
    for (let i = 0; i < count; i++) {
      const diagonal = gram[i]![i]!;
      if (diagonal === 0) continue;
      const slope = target[i]! - weigh(gram[i]!, weights);
      const next = Math.max(0, weights[i]! + slope / diagonal);
      moved += Math.abs(next - weights[i]!) * Math.sqrt(diagonal);
      weights[i] = next;
    }
    if (moved < 1e-9) break;
  }
  return weights;
}

function weigh(terms: ArrayLike<number>, weights: readonly number[]): number {
  let sum = 0;
  for (let i = 0; i < terms.length; i++) sum += terms[i]! * weights[i]!;
  return sum;
}
