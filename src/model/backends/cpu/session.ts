/** Sessions of ONNX Runtime's CPU provider. */
import { InferenceSession } from 'onnxruntime-node';
import { productsAreExact } from './processor.js';

/** What sessions have in common, however many threads they have. A change is one of `LAYOUT_VERSION` in prepare.ts. */
export const SESSION_OPTIONS: InferenceSession.SessionOptions = {
  executionProviders: ['cpu'],
  interOpNumThreads: 1,
  executionMode: 'sequential',
  graphOptimizationLevel: 'all',
  // Shapes change every step; patterns would be kept for each of them.
  enableMemPattern: false,
  logSeverityLevel: 3,
};

/** Where products of 8 bits would saturate, weights are multiplied by kernels in which they do not: half as fast ones. */
export const EXACT_PRODUCTS = productsAreExact() ? {} : { x64quantprecision: '1' };

/** Between the parallel parts of a step the other threads wait awake, and no longer than that. */
const SPINNING = { intra_op: { spin_duration_us: '2000', spin_backoff_max: '1' } };

/** @param arena whether it keeps the memory of its largest step, which spares it up to 2 % of the time */
export function createSession(modelFile: string, threads: number, arena: boolean): Promise<InferenceSession> {
  return InferenceSession.create(modelFile, {
    ...SESSION_OPTIONS,
    intraOpNumThreads: threads,
    enableCpuMemArena: arena,
    extra: { session: { ...EXACT_PRODUCTS, ...SPINNING } },
  });
}
