/** Step times of the bundled model, from `sluice simulate calibrate`: what `sluice simulate` takes if it is given none. */
import type { StepTimes } from './step-time.js';

export const bundledStepTimes: StepTimes = {
  description: 'SmolLM2-135M-Instruct (int8) on ONNX Runtime on the CPU, 2 threads, 2 replicas; AMD EPYC',
  microseconds: [11426.9, 348.5, 0, 11.5984, 443.423, 0, 3.22858, 1.23023],
  mixedSteps: false,
};
