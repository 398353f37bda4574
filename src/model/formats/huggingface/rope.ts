/**
 * RoPE settings of config.json in both layouts: rope_parameters (transformers 5), and rope_theta with rope_scaling
 * before it. Formulas: modeling_rope_utils.py of transformers.
 */
import type { RopeSpec } from '../../architecture.js';
import { baseFrequencies, scaleAsLlama3, scaleLinearly } from '../../rope.js';
import type { Settings } from '../settings.js';

/** RoPE of models whose layers share one. */
export function sharedRope(config: Settings, headSize: number): RopeSpec {
  const parameters = config.section('rope_parameters') ?? config.section('rope_scaling');
  return ropeSpec(config, parameters, config.positive('rope_theta', 10_000), headSize);
}

/** Gemma 3: the layers that see everything, then the layers with a window, which are never scaled in the older layout. */
export function gemmaRopes(config: Settings, headSize: number): [full: RopeSpec, sliding: RopeSpec] {
  const perType = config.section('rope_parameters');
  const fullBase = config.positive('rope_theta', 1_000_000);
  const slidingBase = config.positive('rope_local_base_freq', 10_000);
  if (perType === undefined) {
    return [
      ropeSpec(config, config.section('rope_scaling'), fullBase, headSize),
      ropeSpec(config, undefined, slidingBase, headSize),
    ];
  }
  const full = perType.section('full_attention') ?? perType.fail('full_attention', 'is missing');
  const sliding = perType.section('sliding_attention') ?? perType.fail('sliding_attention', 'is missing');
  return [ropeSpec(config, full, fullBase, headSize), ropeSpec(config, sliding, slidingBase, headSize)];
}

function ropeSpec(config: Settings, parameters: Settings | undefined, defaultBase: number, headSize: number): RopeSpec {
  const base = parameters?.positive('rope_theta', defaultBase) ?? defaultBase;
  const partial = parameters?.optionalNumber('partial_rotary_factor') ?? config.number('partial_rotary_factor', 1);
  const dimensions = Math.floor(headSize * partial);
  if (!(dimensions >= 2 && dimensions <= headSize && dimensions % 2 === 0)) {
    config.fail('partial_rotary_factor', `is ${partial}, which does not fit heads of size ${headSize}`);
  }
  const frequencies = baseFrequencies(base, dimensions);
  return { dimensions, inverseFrequencies: scaled(config, parameters, frequencies), attentionFactor: 1 };
}

function scaled(config: Settings, parameters: Settings | undefined, frequencies: Float64Array): Float64Array {
  if (parameters === undefined) return frequencies;
  const typeKey = parameters.has('rope_type') ? 'rope_type' : 'type';
  const type = parameters.string(typeKey, 'default');
  switch (type) {
    case 'default':
      return frequencies;
    case 'linear':
      return scaleLinearly(frequencies, parameters.positive('factor'));
    case 'llama3':
      return scaleAsLlama3(frequencies, {
        factor: parameters.positive('factor'),
        lowFrequencyFactor: parameters.positive('low_freq_factor'),
        highFrequencyFactor: parameters.positive('high_freq_factor'),
        originalMaxPositions:
          parameters.optionalInteger('original_max_position_embeddings') ??
          config.integer('original_max_position_embeddings'),
      });
    default:
      return parameters.fail(typeKey, `is ${type}, which is not supported (default, linear and llama3 are)`);
  }
}
