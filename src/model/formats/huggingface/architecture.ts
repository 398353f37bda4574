/**
 * The architecture of a Hugging Face model, from config.json. Defaults of absent keys are those of the configuration
 * classes of transformers.
 */
import type { Activation, Architecture, LayerSpec } from '../../architecture.js';
import { checkArchitecture, checkHeadSize, FAMILIES, type FamilyName } from '../families.js';
import type { Settings } from '../settings.js';
import { gemmaRopes, sharedRope } from './rope.js';

/** Keys whose value differs between families when it is absent. */
interface Defaults {
  readonly headSize?: number;
  readonly numHeads?: number;
  readonly numKvHeads?: number;
  readonly vocabSize?: number;
  readonly maxPositions?: number;
  readonly slidingWindow?: number;
  readonly tiedHead: boolean;
}

/** Gemma's published files leave out much of what its class has as default; those of other families are complete. */
const DEFAULTS: Readonly<Record<FamilyName, Defaults>> = {
  llama: { tiedHead: false },
  mistral: { slidingWindow: 4096, tiedHead: false },
  qwen2: { slidingWindow: 4096, tiedHead: false },
  qwen3: { headSize: 128, slidingWindow: 4096, tiedHead: false },
  phi3: { tiedHead: false },
  gemma3: {
    headSize: 256,
    numHeads: 8,
    numKvHeads: 4,
    vocabSize: 262_208,
    maxPositions: 131_072,
    slidingWindow: 4096,
    tiedHead: true,
  },
};

export interface DecoderConfig {
  readonly family: FamilyName;
  /** The decoder's settings: the file's own, or its text_config where the model sees images too. */
  readonly config: Settings;
}

/** Throws LoadError, by name, for model types and settings that are not supported. */
export function decoderConfig(file: Settings): DecoderConfig {
  if (file.has('quantization_config')) {
    const method = file.section('quantization_config')?.string('quant_method', 'unknown');
    file.fail('quantization_config', `has method ${method}; quantized safetensors are not supported`);
  }
  const type = file.string('model_type');
  if (type === 'gemma3_text') return { family: 'gemma3', config: file };
  if (type === 'gemma3') return { family: 'gemma3', config: file.section('text_config') ?? file };
  if (Object.hasOwn(FAMILIES, type)) return { family: type as FamilyName, config: file };
  const supported = [...Object.keys(FAMILIES), 'gemma3_text'].join(', ');
  return file.fail('model_type', `is ${type}, which is not supported (${supported} are)`);
}

/**
 * @param tensorCount bounds the number of layers
 * @param hasHead whether the weights hold a head of their own
 * @param tied the file's tie_word_embeddings, which wins over the decoder's where text_config holds none
 */
export function huggingfaceArchitecture(
  { family: familyName, config }: DecoderConfig,
  weights: { readonly tensorCount: number; readonly hasHead: boolean },
  tied: boolean | undefined,
): Architecture {
  const family = FAMILIES[familyName];
  const defaults = DEFAULTS[familyName];
  refuseUnsupported(config);
  const hiddenSize = config.integer('hidden_size');
  const numHeads = config.integer('num_attention_heads', defaults.numHeads);
  const headSize = checkHeadSize(config.file, config.integer('head_dim', defaults.headSize ?? hiddenSize / numHeads));
  const numLayers = config.integer('num_hidden_layers');
  if (numLayers > weights.tensorCount) {
    config.fail('num_hidden_layers', `is ${numLayers}, but the weights hold ${weights.tensorCount} tensors`);
  }
  const windows = slidingWindows(config, familyName, numLayers);
  const ropes = familyName === 'gemma3' ? gemmaRopes(config, headSize) : [sharedRope(config, headSize)];
  const localRope = ropes.length - 1;
  const layers = windows.map(
    ({ sliding, window }): LayerSpec => ({ rope: sliding ? localRope : 0, slidingWindow: window }),
  );
  const architecture: Architecture = {
    family: family.name,
    vocabSize: config.integer('vocab_size', defaults.vocabSize),
    hiddenSize,
    intermediateSize: config.integer('intermediate_size'),
    numHeads,
    numKvHeads: config.integer('num_key_value_heads', defaults.numKvHeads ?? numHeads),
    headSize,
    maxPositions: config.integer('max_position_embeddings', defaults.maxPositions),
    normEpsilon: config.positive('rms_norm_eps', 1e-6),
    activation: activation(config, family.activation),
    embeddingScale: family.scaledEmbedding ? Math.sqrt(hiddenSize) : 1,
    attentionScale: 1 / Math.sqrt(familyName === 'gemma3' ? config.positive('query_pre_attn_scalar', 256) : headSize),
    qkvBias: family.qkvBias,
    qkNorm: family.qkNorm,
    postNorms: family.postNorms,
    tiedHead: tiedHead(config, tied, weights.hasHead, defaults.tiedHead),
    ropes,
    layers,
  };
  checkArchitecture(config.file, architecture);
  return architecture;
}

function refuseUnsupported(config: Settings): void {
  for (const key of ['attn_logit_softcapping', 'final_logit_softcapping']) {
    if (config.has(key)) config.fail(key, 'is set, which is not supported');
  }
  for (const key of ['attention_bias', 'mlp_bias', 'use_bidirectional_attention']) {
    if (config.boolean(key, false)) config.fail(key, 'is true, which is not supported');
  }
}

/** A head that is there is used unless the settings tie it; one that is not must not be asked for. */
function tiedHead(config: Settings, flag: boolean | undefined, hasHead: boolean, byDefault: boolean): boolean {
  if (flag === false && !hasHead) {
    config.fail('tie_word_embeddings', 'is false, but the weights hold no head (lm_head.weight)');
  }
  return flag ?? (!hasHead || byDefault);
}

function activation(config: Settings, expected: Activation): Activation {
  const key = config.has('hidden_activation') ? 'hidden_activation' : 'hidden_act';
  const name = config.string(key, expected === 'silu' ? 'silu' : 'gelu_pytorch_tanh');
  if (name === 'silu' || name === 'swish') return 'silu';
  if (name === 'gelu_pytorch_tanh') return 'gelu_tanh';
  return config.fail(key, `is ${name}, which is not supported (silu and gelu_pytorch_tanh are)`);
}

interface LayerWindow {
  /** The layer is of the kind with a window, whether or not one is set. */
  readonly sliding: boolean;
  readonly window: number | undefined;
}

function slidingWindows(config: Settings, family: FamilyName, layers: number): LayerWindow[] {
  const qwen = family === 'qwen2' || family === 'qwen3';
  const off = family === 'llama' || (qwen && !config.boolean('use_sliding_window', false));
  // An explicit null switches the window off; an absent key leaves the class's default.
  const set = Object.hasOwn(config.values, 'sliding_window');
  const window = off ? undefined : set ? config.optionalInteger('sliding_window') : DEFAULTS[family].slidingWindow;
  const kinds = layerKinds(config, layers);
  return Array.from({ length: layers }, (_, layer) => {
    const sliding = kinds?.[layer] ?? slidingByRule(config, family, layer);
    return { sliding, window: sliding ? window : undefined };
  });
}

/** layer_types, where it is given: whether each layer has a window. */
function layerKinds(config: Settings, layers: number): boolean[] | undefined {
  const types = config.list('layer_types');
  if (types === undefined) return undefined;
  if (types.length !== layers) config.fail('layer_types', `has ${types.length} entries for ${layers} layers`);
  return types.map((type) => {
    if (type === 'sliding_attention') return true;
    if (type === 'full_attention') return false;
    return config.fail(
      'layer_types',
      `has ${String(type)}, which is not supported (full_attention and sliding_attention are)`,
    );
  });
}

function slidingByRule(config: Settings, family: FamilyName, layer: number): boolean {
  switch (family) {
    case 'qwen2':
    case 'qwen3':
      return layer >= config.number('max_window_layers', 28);
    case 'gemma3': {
      const key = config.has('sliding_window_pattern') ? 'sliding_window_pattern' : '_sliding_window_pattern';
      return (layer + 1) % config.integer(key, 6) !== 0;
    }
    default:
      return true;
  }
}
