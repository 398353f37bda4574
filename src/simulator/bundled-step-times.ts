/** Step times of the bundled model, from `sluice simulate calibrate`: what `sluice simulate` takes if it is given none. */
import type { StepTimes } from './step-time.js';

export const bundledStepTimes: StepTimes = {
  description: 'SmolLM2-135M-Instruct (int8) on ONNX Runtime on the CPU, 2 threads; AMD EPYC',
  microseconds: [28793.6, 0, 0, 90.7244, 1866.08, 281.147, 32.642, 2.73191],
  mixedSteps: false,
};
