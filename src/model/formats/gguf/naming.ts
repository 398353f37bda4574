/** Tensor names and conventions of GGUF: gguf-py/gguf/constants.py and convert_hf_to_gguf.py of llama.cpp. */
import type { Naming } from '../bind.js';
import type { FamilyName } from '../families.js';

export function ggufNaming(family: FamilyName): Naming {
  return {
    globals: { embedding: 'token_embd.weight', finalNorm: 'output_norm.weight', head: 'output.weight' },
    layerPrefix: (layer) => `blk.${layer}.`,
    layersPrefix: 'blk.',
    layer: {
      attentionNorm: 'attn_norm.weight',
      q: 'attn_q.weight',
      k: 'attn_k.weight',
      v: 'attn_v.weight',
      qBias: 'attn_q.bias',
      kBias: 'attn_k.bias',
      vBias: 'attn_v.bias',
      qNorm: 'attn_q_norm.weight',
      kNorm: 'attn_k_norm.weight',
      o: 'attn_output.weight',
      postAttentionNorm: 'post_attention_norm.weight',
      ffnNorm: 'ffn_norm.weight',
      gate: 'ffn_gate.weight',
      up: 'ffn_up.weight',
      down: 'ffn_down.weight',
      postFfnNorm: 'post_ffw_norm.weight',
    },
    packed: family === 'phi3' ? { qkv: 'attn_qkv.weight', gateUp: 'ffn_up.weight' } : undefined,
    redundant: /\.(attn_rot_embd|rope_freqs)(\.weight)?$/,
    interleavedRope: family === 'llama',
    normsWithoutOne: false,
  };
}
