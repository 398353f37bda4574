/** Step times of the bundled model, from `sluice simulate calibrate`: what `sluice simulate` takes if it is given none. */
import type { StepTimes } from './step-time.js';

export const bundledStepTimes: StepTimes = {
  description: 'placeholder',
  microseconds: [1000, 1000, 200, 100, 200, 100, 1, 0.1],
};
