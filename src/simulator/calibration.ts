/** From the statistics of an engine under load to a model of its step times. */
import type { EngineStats } from '../engine/protocol.js';
import { fitWeights, type Measurement } from './fit.js';
import { type StepTimes, termsOf } from './step-time.js';

export interface Calibration {
  readonly times: StepTimes;
  readonly steps: number;
  /** Mean size of the relative error over these steps. */
  readonly error: number;
}

/**
 * @param stats of every step in order
 * @param where they come from
 */
export function calibrate(
  stats: readonly EngineStats[],
  where: Pick<StepTimes, 'description' | 'mixedSteps'>,
): Calibration {
  const measurements = measured(stats);
  const { weights, error } = fitWeights(measurements);
  const microseconds = weights.map((weight) => Number(weight.toPrecision(6)));
  return { times: { ...where, microseconds }, steps: measurements.length, error };
}

/**
 * Microseconds from the end of one step to that of the next, of steps that followed at once, so that everything between
 * them counts.
 */
function measured(stats: readonly EngineStats[]): Measurement[] {
  const measurements: Measurement[] = [];
  for (let i = 1; i < stats.length; i++) {
    const [before, step] = [stats[i - 1]!, stats[i]!];
    const followed = step.steps === before.steps + 1 && before.running + before.waiting > 0;
    if (!followed || step.sequences === 0) continue;
    measurements.push({ terms: termsOf(step), value: (step.time - before.time) * 1e6 });
  }
  return measurements;
}
