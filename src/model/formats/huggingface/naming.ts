/** Tensor names and conventions of Hugging Face checkpoints, as the modeling files of transformers define them. */
import { LoadError } from '../../../errors.js';
import type { Naming } from '../bind.js';
import type { FamilyName } from '../families.js';

/** Where the decoder lies: causal models, two generations of models that see images too, and bare decoders. */
const PREFIXES = ['model.', 'language_model.model.', 'model.language_model.', ''];

/** Throws LoadError when no tensor is a known name of the embedding. */
export function huggingfaceNaming(
  directory: string,
  family: FamilyName,
  tensors: ReadonlyMap<string, unknown>,
): Naming {
  const prefix = PREFIXES.find((candidate) => tensors.has(`${candidate}embed_tokens.weight`));
  if (prefix === undefined) throw new LoadError(directory, 'tensor model.embed_tokens.weight is missing');
  const gemma = family === 'gemma3';
  return {
    globals: {
      embedding: `${prefix}embed_tokens.weight`,
      finalNorm: `${prefix}norm.weight`,
      head: prefix === 'language_model.model.' ? 'language_model.lm_head.weight' : 'lm_head.weight',
    },
    layerPrefix: (layer) => `${prefix}layers.${layer}.`,
    layersPrefix: `${prefix}layers.`,
    layer: {
      attentionNorm: 'input_layernorm.weight',
      q: 'self_attn.q_proj.weight',
      k: 'self_attn.k_proj.weight',
      v: 'self_attn.v_proj.weight',
      qBias: 'self_attn.q_proj.bias',
      kBias: 'self_attn.k_proj.bias',
      vBias: 'self_attn.v_proj.bias',
      qNorm: 'self_attn.q_norm.weight',
      kNorm: 'self_attn.k_norm.weight',
      o: 'self_attn.o_proj.weight',
      postAttentionNorm: 'post_attention_layernorm.weight',
      ffnNorm: gemma ? 'pre_feedforward_layernorm.weight' : 'post_attention_layernorm.weight',
      gate: 'mlp.gate_proj.weight',
      up: 'mlp.up_proj.weight',
      down: 'mlp.down_proj.weight',
      postFfnNorm: 'post_feedforward_layernorm.weight',
    },
    packed: family === 'phi3' ? { qkv: 'self_attn.qkv_proj.weight', gateUp: 'mlp.gate_up_proj.weight' } : undefined,
    redundant: /\.rotary_emb\.inv_freq$/,
    interleavedRope: false,
    normsWithoutOne: gemma,
  };
}
