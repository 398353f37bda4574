/**
 * How long a step takes, as a weighted sum of what it computes. The weights come from a fit to measured steps; none is
 * negative, so that more work never takes less time.
 */
import { UserError } from '../errors.js';

/** What a step computes, as the engine's plans and statistics tell it. */
export interface StepWork {
  readonly prefillTokens: number;
  readonly decodeTokens: number;
  readonly decodePairs: number;
  readonly prefillPairs: number;
}

/** Rows up to which further ones are cheap: a step with few rows reads all weights for them. */
const KNEES = [4, 16, 64] as const;

/** Names of the terms, in order. */
export const TERMS = [
  'step',
  ...KNEES.map((knee) => `row up to ${knee}` as const),
  'row',
  'decode row',
  'decode pair',
  'prefill pair',
] as const;

/** What each term counts in a step. */
export function termsOf({ prefillTokens, decodeTokens, decodePairs, prefillPairs }: StepWork): number[] {
  const rows = prefillTokens + decodeTokens;
  return [1, ...KNEES.map((knee) => Math.min(rows, knee)), rows, decodeTokens, decodePairs, prefillPairs];
}

export interface StepTimes {
  /** Where they were measured: one line for people. */
  readonly description: string;
  /** Microseconds of each of `TERMS`. */
  readonly microseconds: readonly number[];
  /** Whether prompts and decodes share steps there. */
  readonly mixedSteps: boolean;
}

/** Seconds. */
export function stepTime(work: StepWork, times: StepTimes): number {
  const terms = termsOf(work);
  let time = 0;
  for (let i = 0; i < terms.length; i++) time += terms[i]! * times.microseconds[i]!;
  return time / 1e6;
}

/**
 * @param text of a file that `sluice simulate calibrate` wrote
 * @throws UserError when it is something else
 */
export function parseStepTimes(text: string, file: string): StepTimes {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new UserError(`${file} is not JSON; write it with "sluice simulate calibrate"`);
  }
  const { description, microseconds, mixedSteps } = (value ?? {}) as Partial<StepTimes>;
  const valid =
    typeof description === 'string' &&
    typeof mixedSteps === 'boolean' &&
    Array.isArray(microseconds) &&
    microseconds.length === TERMS.length &&
    microseconds.every((time) => typeof time === 'number' && time >= 0 && Number.isFinite(time));
  if (!valid)
    throw new UserError(`${file} has no step times of this version; write it with "sluice simulate calibrate"`);
  return { description, microseconds, mixedSteps };
}
