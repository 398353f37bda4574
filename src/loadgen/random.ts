/** Seeded randomness: one seed gives the same prompts, lengths and arrivals on every run. */
import { createHash } from 'node:crypto';
import { randomLcg } from 'd3-random';

/** Uniform in [0, 1). */
export type RandomSource = () => number;

/**
 * An independent source for each name. The seed goes through a hash, because a linear congruential generator gives
 * neighbouring sequences for neighbouring seeds.
 */
export function randomSource(seed: number, ...name: readonly (string | number)[]): RandomSource {
  const digest = createHash('sha256')
    .update([seed, ...name].join('/'))
    .digest();
  return randomLcg(digest.readUInt32LE(0) / 2 ** 32);
}

/** An integer in [low, high], both included. */
export function randomInteger(random: RandomSource, low: number, high: number): number {
  return low + Math.floor(random() * (high - low + 1));
}
