/** Distributions of lengths in tokens, as given on the command line. */
import { randomLogNormal, randomNormal } from 'd3-random';
import { UserError } from '../errors.js';
import { type RandomSource, randomInteger } from './random.js';

export type LengthDistribution =
  | { readonly kind: 'uniform'; readonly low: number; readonly high: number }
  | { readonly kind: 'normal'; readonly mean: number; readonly deviation: number }
  | { readonly kind: 'lognormal'; readonly median: number; readonly sigma: number };

/**
 * Reads `128` (always), `64-512` (uniform, both ends included), `normal:256,64` (mean and standard deviation) or
 * `lognormal:200,0.8` (median, and standard deviation of the logarithm: a long tail).
 * @throws UserError when the text is none of these
 */
export function parseLengths(text: string): LengthDistribution {
  const range = /^(\d+)(?:-(\d+))?$/.exec(text);
  if (range) {
    const low = Number(range[1]);
    const high = Number(range[2] ?? range[1]);
    if (low >= 1 && high >= low) return { kind: 'uniform', low, high };
  }
  const normal = /^normal:(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)$/.exec(text);
  if (normal && Number(normal[1]) >= 1)
    return { kind: 'normal', mean: Number(normal[1]), deviation: Number(normal[2]) };
  const lognormal = /^lognormal:(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)$/.exec(text);
  if (lognormal && Number(lognormal[1]) >= 1)
    return { kind: 'lognormal', median: Number(lognormal[1]), sigma: Number(lognormal[2]) };
  throw new UserError(`"${text}" is not a length in tokens; write 128, 64-512, normal:256,64 or lognormal:200,0.8`);
}

/** @returns a length of at least 1 */
export function drawLength(distribution: LengthDistribution, random: RandomSource): number {
  if (distribution.kind === 'uniform') return randomInteger(random, distribution.low, distribution.high);
  const draw =
    distribution.kind === 'normal'
      ? randomNormal.source(random)(distribution.mean, distribution.deviation)
      : randomLogNormal.source(random)(Math.log(distribution.median), distribution.sigma);
  return Math.max(1, Math.round(draw()));
}
