/** Rotary position embedding: frequencies of each kind of scaling, and the tables of cos and sin that graphs read. */
import type { RopeSpec } from './architecture.js';

/** base^(-2i / dimensions) radians per position for pair i (RoFormer, arXiv 2104.09864): f64 [dimensions / 2]. */
export function baseFrequencies(base: number, dimensions: number): Float64Array {
  return Float64Array.from({ length: dimensions / 2 }, (_, i) => base ** ((-2 * i) / dimensions));
}

/** Linear scaling (position interpolation): positions count as position / factor. */
export function scaleLinearly(frequencies: Float64Array, factor: number): Float64Array {
  return frequencies.map((frequency) => frequency / factor);
}

export interface Llama3Scaling {
  readonly factor: number;
  readonly lowFrequencyFactor: number;
  readonly highFrequencyFactor: number;
  /** Context of pretraining, in tokens. */
  readonly originalMaxPositions: number;
}

/**
 * Llama 3.1's scaling: pairs that turn fewer than `lowFrequencyFactor` times within the original context are slowed
 * down by `factor`, those that turn more than `highFrequencyFactor` times are kept, and between the two it is
 * interpolated. Source: apply_scaling in meta-llama/llama-models, models/llama3/model.py.
 */
export function scaleAsLlama3(frequencies: Float64Array, scaling: Llama3Scaling): Float64Array {
  const { factor, lowFrequencyFactor: low, highFrequencyFactor: high } = scaling;
  return frequencies.map((frequency) => {
    const turns = (scaling.originalMaxPositions * frequency) / (2 * Math.PI);
    if (turns > high) return frequency;
    if (turns < low) return frequency / factor;
    const smooth = (turns - low) / (high - low);
    return ((1 - smooth) * frequency) / factor + smooth * frequency;
  });
}

export interface RopeTables {
  /** f32 [positions, dimensions / 2] row-major, `attentionFactor` included; likewise `sin`. */
  readonly cos: Float32Array;
  readonly sin: Float32Array;
}

/** Tables for positions 0 to `positions` - 1. Angles are computed in f64, so that late positions stay exact. */
export function ropeTables(spec: RopeSpec, positions: number): RopeTables {
  const pairs = spec.inverseFrequencies.length;
  const cos = new Float32Array(positions * pairs);
  const sin = new Float32Array(positions * pairs);
  for (let position = 0, at = 0; position < positions; position++) {
    for (let pair = 0; pair < pairs; pair++, at++) {
      const angle = position * spec.inverseFrequencies[pair]!;
      cos[at] = Math.cos(angle) * spec.attentionFactor;
      sin[at] = Math.sin(angle) * spec.attentionFactor;
    }
  }
  return { cos, sin };
}
