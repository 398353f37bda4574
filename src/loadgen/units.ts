/** The units of the load generator: every time in it is in milliseconds of the monotonic clock (performance.now). */
import { UserError } from '../errors.js';

export type Milliseconds = number;

const FACTORS: Readonly<Record<string, number>> = { us: 1e-3, ms: 1, s: 1e3, m: 60e3, h: 3600e3 };

/**
 * Reads a duration such as `200ms`, `1.5s`, `2m` or `1h`; a bare number counts in `bareUnit`.
 * @throws UserError when the text is no positive duration
 */
export function parseDuration(text: string, bareUnit: 'ms' | 's' = 's'): Milliseconds {
  const match = /^(\d+(?:\.\d+)?|\.\d+)(us|ms|s|m|h)?$/.exec(text.trim());
  const value = match ? Number(match[1]) * FACTORS[match[2] ?? bareUnit]! : Number.NaN;
  if (!(value > 0)) throw new UserError(`"${text}" is not a duration; write for example 200ms, 1.5s or 2m`);
  return value;
}
