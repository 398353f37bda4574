/** Options that every session on the WebGPU provider shares. */
import type { InferenceSession } from 'onnxruntime-node';

/** Log severity of ONNX Runtime: errors only, since adapters and fallbacks are reported by us. */
const ERRORS_ONLY = 3;

export function webgpuSessionOptions(): InferenceSession.SessionOptions {
  return {
    executionProviders: [{ name: 'webgpu' }],
    graphOptimizationLevel: 'all',
    // Shapes change every step; patterns would be kept for each of them.
    enableMemPattern: false,
    logSeverityLevel: ERRORS_ONLY,
  };
}
