/** config.json in its older and newer layouts: published files, abridged, and what is refused. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Architecture } from '../../../src/model/architecture.js';
import { decoderConfig, huggingfaceArchitecture } from '../../../src/model/formats/huggingface/architecture.js';
import { Settings } from '../../../src/model/formats/settings.js';
import { TINY_MODELS } from '../../support/model-directory.js';

type Config = Readonly<Record<string, unknown>>;

function read(config: Config, hasHead = false): Architecture {
  const decoder = decoderConfig(new Settings('config.json', config));
  return huggingfaceArchitecture(decoder, { tensorCount: 1000, hasHead }, undefined);
}

function tiny(model: string): Config {
  return JSON.parse(readFileSync(join(TINY_MODELS, model, 'config.json'), 'utf8')) as Config;
}

function windows({ layers }: Architecture): (number | undefined)[] {
  return layers.map((layer) => layer.slidingWindow);
}

/** The newer layout's keys removed, older ones put in their place. */
function older(model: string, keys: Config): Config {
  const { rope_parameters: _, layer_types: __, _sliding_window_pattern: ___, ...rest } = tiny(model);
  return { ...rest, ...keys };
}

describe('the older layout', () => {
  it.each<[string, Config]>([
    ['tiny-llama', { rope_theta: 10_000 }],
    ['tiny-llama', { rope_theta: 10_000, rope_scaling: null, head_dim: undefined }],
    ['tiny-mistral', { rope_theta: 10_000 }],
    ['tiny-qwen2', { rope_theta: 1_000_000 }],
    ['tiny-qwen3', { rope_theta: 1_000_000, rope_scaling: null }],
    ['tiny-phi3', { rope_theta: 10_000, partial_rotary_factor: 1 }],
    ['tiny-gemma3', { rope_theta: 1_000_000, rope_local_base_freq: 10_000, sliding_window_pattern: 3 }],
    ['tiny-gemma3', { rope_theta: 1_000_000, rope_local_base_freq: 10_000, _sliding_window_pattern: 3 }],
    [
      'tiny-llama3-rope',
      {
        rope_theta: 500_000,
        rope_scaling: {
          factor: 8,
          high_freq_factor: 4,
          low_freq_factor: 1,
          original_max_position_embeddings: 128,
          rope_type: 'llama3',
        },
      },
    ],
  ])('%s reads as in the newer one', (model, keys) => {
    const untied = tiny(model)['tie_word_embeddings'] === false;
    expect(read(older(model, keys), untied)).toEqual(read(tiny(model), untied));
  });
});

describe('published files', () => {
  it('Llama 3.1 8B', () => {
    const architecture = read(
      {
        model_type: 'llama',
        attention_bias: false,
        eos_token_id: [128_001, 128_008, 128_009],
        hidden_act: 'silu',
        hidden_size: 4096,
        intermediate_size: 14_336,
        max_position_embeddings: 131_072,
        mlp_bias: false,
        num_attention_heads: 32,
        num_hidden_layers: 32,
        num_key_value_heads: 8,
        rms_norm_eps: 1e-5,
        rope_scaling: {
          factor: 8.0,
          low_freq_factor: 1.0,
          high_freq_factor: 4.0,
          original_max_position_embeddings: 8192,
          rope_type: 'llama3',
        },
        rope_theta: 500_000.0,
        tie_word_embeddings: false,
        vocab_size: 128_256,
      },
      true,
    );
    expect(architecture).toMatchObject({ headSize: 128, numKvHeads: 8, attentionScale: 1 / Math.sqrt(128) });
    const { inverseFrequencies } = architecture.ropes[0]!;
    expect(inverseFrequencies[0]).toBe(1);
    expect(inverseFrequencies[63]! * 8).toBeCloseTo(500_000 ** (-126 / 128), 15);
  });

  it('Mistral 7B 0.1 and 0.3: with and without a window', () => {
    const mistral = {
      model_type: 'mistral',
      hidden_act: 'silu',
      hidden_size: 4096,
      intermediate_size: 14_336,
      max_position_embeddings: 32_768,
      num_attention_heads: 32,
      num_hidden_layers: 2,
      num_key_value_heads: 8,
      rms_norm_eps: 1e-5,
      rope_theta: 10_000.0,
      vocab_size: 32_000,
    };
    expect(windows(read({ ...mistral, sliding_window: 4096 }))).toEqual([4096, 4096]);
    expect(windows(read(mistral))).toEqual([4096, 4096]);
    expect(windows(read({ ...mistral, sliding_window: null }))).toEqual([undefined, undefined]);
  });

  const qwen = {
    model_type: 'qwen2',
    hidden_act: 'silu',
    hidden_size: 896,
    intermediate_size: 4864,
    max_position_embeddings: 32_768,
    max_window_layers: 2,
    num_attention_heads: 14,
    num_hidden_layers: 4,
    num_key_value_heads: 2,
    rms_norm_eps: 1e-6,
    rope_theta: 1_000_000.0,
    sliding_window: 32_768,
    tie_word_embeddings: true,
    vocab_size: 151_936,
  };

  it('Qwen2.5: a window that is set but not used, or used from a layer on', () => {
    expect(windows(read({ ...qwen, use_sliding_window: false }))).toEqual(Array(4).fill(undefined));
    expect(windows(read({ ...qwen, use_sliding_window: true }))).toEqual([undefined, undefined, 32_768, 32_768]);
    const types = ['sliding_attention', 'full_attention', 'full_attention', 'sliding_attention'];
    expect(windows(read({ ...qwen, use_sliding_window: true, layer_types: types }))).toEqual([
      32_768,
      undefined,
      undefined,
      32_768,
    ]);
    expect(windows(read({ ...qwen, layer_types: types }))).toEqual(Array(4).fill(undefined));
    expect(read(qwen)).toMatchObject({ family: 'qwen2', qkvBias: true, headSize: 64 });
  });

  it('Qwen3: heads wider than the model', () => {
    const architecture = read({ ...qwen, model_type: 'qwen3', head_dim: 128 });
    expect(architecture).toMatchObject({ family: 'qwen3', headSize: 128, qkvBias: false, qkNorm: true });
    expect(read({ ...qwen, model_type: 'qwen3' }).headSize).toBe(128);
  });

  it('Phi-4-mini-like: RoPE over a part of each head', () => {
    const { layers, ropes } = read({
      ...qwen,
      model_type: 'phi3',
      hidden_size: 3072,
      num_attention_heads: 24,
      num_key_value_heads: 8,
      partial_rotary_factor: 0.75,
      rope_scaling: null,
      sliding_window: 2047,
    });
    expect(ropes[0]!.dimensions).toBe(96);
    expect(ropes[0]!.inverseFrequencies).toHaveLength(48);
    expect(layers.every((layer) => layer.slidingWindow === 2047)).toBe(true);
  });

  it('Gemma 3 4B: a decoder within a model that sees images, most keys left out', () => {
    const architecture = read({
      model_type: 'gemma3',
      eos_token_id: [1, 106],
      text_config: {
        hidden_size: 2560,
        intermediate_size: 10_240,
        model_type: 'gemma3_text',
        num_hidden_layers: 34,
        rope_scaling: { factor: 8.0, rope_type: 'linear' },
        sliding_window: 1024,
      },
    });
    expect(architecture).toMatchObject({
      family: 'gemma3',
      vocabSize: 262_208,
      numHeads: 8,
      numKvHeads: 4,
      headSize: 256,
      maxPositions: 131_072,
      activation: 'gelu_tanh',
      attentionScale: 1 / 16,
      embeddingScale: Math.sqrt(2560),
      tiedHead: true,
      postNorms: true,
    });
    expect(architecture.ropes.map((rope) => rope.inverseFrequencies[0])).toEqual([1 / 8, 1]);
    expect(architecture.ropes.map((rope) => rope.inverseFrequencies[1]! / rope.inverseFrequencies[0]!)).toEqual([
      1e6 ** (-2 / 256),
      1e4 ** (-2 / 256),
    ]);
    const full = architecture.layers.flatMap((layer, i) => (layer.slidingWindow === undefined ? [i] : []));
    expect(full).toEqual([5, 11, 17, 23, 29]);
    expect(architecture.layers.every((layer) => layer.rope === (layer.slidingWindow === undefined ? 0 : 1))).toBe(true);
  });
});

describe('what is not supported is refused by name', () => {
  const scaled = (rope: Config): Config => ({ rope_parameters: { rope_theta: 10_000, ...rope } });
  it.each<[Config, RegExp]>([
    [{ model_type: 'mixtral' }, /^config.json: model_type is mixtral, which is not supported/],
    [{ model_type: undefined }, /model_type is missing/],
    [{ model_type: 'constructor' }, /model_type is constructor/],
    [scaled({ rope_type: 'yarn', factor: 4 }), /rope_parameters.rope_type is yarn/],
    [scaled({ rope_type: 'dynamic', factor: 4 }), /rope_parameters.rope_type is dynamic/],
    [{ rope_parameters: undefined, rope_scaling: { type: 'longrope' } }, /rope_scaling.type is longrope/],
    [scaled({ rope_type: 'linear' }), /rope_parameters.factor is missing/],
    [scaled({ rope_type: 'linear', factor: 0 }), /rope_parameters.factor is 0 and must be above 0/],
    [scaled({ rope_type: 'llama3', factor: 8 }), /rope_parameters.low_freq_factor is missing/],
    [scaled({ partial_rotary_factor: 2 }), /partial_rotary_factor is 2, which does not fit/],
    [{ attention_bias: true }, /attention_bias is true/],
    [{ mlp_bias: true }, /mlp_bias is true/],
    [{ final_logit_softcapping: 30 }, /final_logit_softcapping is set/],
    [{ hidden_act: 'relu' }, /hidden_act is relu/],
    [{ layer_types: ['full_attention', 'chunked_attention', 'full_attention'] }, /layer_types has chunked_attention/],
    [{ layer_types: ['full_attention'] }, /layer_types has 1 entries for 3 layers/],
    [{ quantization_config: { quant_method: 'gptq', bits: 4 } }, /quantization_config has method gptq/],
    [{ num_key_value_heads: 3 }, /4 attention heads cannot share 3/],
    [{ head_dim: undefined, num_attention_heads: 3, num_key_value_heads: 3 }, /heads of size 21.3/],
    [{ hidden_size: '64' }, /hidden_size is not an integer/],
    [{ hidden_size: -64 }, /hidden_size is -64, which is out of range/],
    [{ num_hidden_layers: undefined }, /num_hidden_layers is missing/],
    [{ num_hidden_layers: 1e9 }, /num_hidden_layers is 1000000000, but the weights hold 1000 tensors/],
    [{ rms_norm_eps: 0 }, /rms_norm_eps is 0/],
    [{ tie_word_embeddings: 'yes' }, /tie_word_embeddings is neither true nor false/],
  ])('%j', (changes, fault) => {
    const config = { ...tiny('tiny-llama'), ...changes };
    const decoder = () => decoderConfig(new Settings('config.json', config));
    expect(() =>
      huggingfaceArchitecture(
        decoder(),
        { tensorCount: 1000, hasHead: true },
        decoder().config.optionalBoolean('tie_word_embeddings'),
      ),
    ).toThrow(fault);
  });
});
