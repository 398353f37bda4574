/** The tiny models as GGUF, converted as llama.cpp's convert_hf_to_gguf.py does. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { GgufContents, GgufTensor, GgufValue } from './gguf-file.js';
import { TINY_MODELS } from './model-directory.js';
import { parseSafetensors, type SafetensorsTensor } from './safetensors-file.js';

interface Config {
  readonly model_type: string;
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly head_dim?: number;
  readonly max_position_embeddings: number;
  readonly rms_norm_eps: number;
  readonly sliding_window?: number | null;
  readonly layer_types?: readonly string[];
  readonly rope_parameters: RopeParameters & { readonly full_attention?: RopeParameters };
}

interface RopeParameters {
  readonly rope_type: string;
  readonly rope_theta: number;
  readonly factor?: number;
  readonly low_freq_factor?: number;
  readonly high_freq_factor?: number;
  readonly original_max_position_embeddings?: number;
}

const LAYER_NAMES: Readonly<Record<string, string>> = {
  'input_layernorm.weight': 'attn_norm.weight',
  'self_attn.q_proj.weight': 'attn_q.weight',
  'self_attn.k_proj.weight': 'attn_k.weight',
  'self_attn.v_proj.weight': 'attn_v.weight',
  'self_attn.q_proj.bias': 'attn_q.bias',
  'self_attn.k_proj.bias': 'attn_k.bias',
  'self_attn.v_proj.bias': 'attn_v.bias',
  'self_attn.q_norm.weight': 'attn_q_norm.weight',
  'self_attn.k_norm.weight': 'attn_k_norm.weight',
  'self_attn.qkv_proj.weight': 'attn_qkv.weight',
  'self_attn.o_proj.weight': 'attn_output.weight',
  'post_attention_layernorm.weight': 'ffn_norm.weight',
  'mlp.gate_proj.weight': 'ffn_gate.weight',
  'mlp.up_proj.weight': 'ffn_up.weight',
  'mlp.gate_up_proj.weight': 'ffn_up.weight',
  'mlp.down_proj.weight': 'ffn_down.weight',
};

const GEMMA_LAYER_NAMES: Readonly<Record<string, string>> = {
  ...LAYER_NAMES,
  'post_attention_layernorm.weight': 'post_attention_norm.weight',
  'pre_feedforward_layernorm.weight': 'ffn_norm.weight',
  'post_feedforward_layernorm.weight': 'post_ffw_norm.weight',
};

/** F16 matrices and F32 vectors; `ggufFile` makes a file of it. */
export function tinyGguf(model: string): GgufContents {
  const directory = join(TINY_MODELS, model);
  const config = readJson(directory, 'config.json') as Config;
  const gemma = config.model_type === 'gemma3_text';
  const llama = config.model_type === 'llama' || config.model_type === 'mistral';
  const architecture = gemma ? 'gemma3' : llama ? 'llama' : config.model_type;
  const stored = parseSafetensors(readFileSync(join(directory, 'model.safetensors')));
  const tensors = Object.entries(stored).map(([name, tensor]): GgufTensor => {
    const target = ggufName(name, gemma ? GEMMA_LAYER_NAMES : LAYER_NAMES);
    const heads = /q_proj/.test(name) ? config.num_attention_heads : config.num_key_value_heads;
    const rows = llama && /[qk]_proj/.test(name) ? permute(tensor, heads) : tensor.data;
    if (tensor.shape.length > 1) return { name: target, shape: tensor.shape, type: 1, data: rows };
    const values = halves(rows).map((value) => (gemma && name.endsWith('norm.weight') ? value + 1 : value));
    return { name: target, shape: tensor.shape, type: 0, data: new Uint8Array(Float32Array.from(values).buffer) };
  });
  const factors = ropeFactors(config);
  if (factors !== undefined) {
    const data = new Uint8Array(Float32Array.from(factors).buffer);
    tensors.push({ name: 'rope_freqs.weight', shape: [factors.length], type: 0, data });
  }
  return { metadata: { ...modelMetadata(architecture, config), ...tokenizerMetadata(directory) }, tensors };
}

function modelMetadata(architecture: string, config: Config): Record<string, GgufValue> {
  const rope = config.rope_parameters.full_attention ?? config.rope_parameters;
  const settings: Record<string, GgufValue> = {
    block_count: config.num_hidden_layers,
    context_length: config.max_position_embeddings,
    embedding_length: config.hidden_size,
    feed_forward_length: config.intermediate_size,
    'attention.head_count': config.num_attention_heads,
    'attention.head_count_kv': config.num_key_value_heads,
    'attention.layer_norm_rms_epsilon': { f32: config.rms_norm_eps },
    'rope.freq_base': { f32: rope.rope_theta },
  };
  if (config.head_dim !== undefined) {
    settings['attention.key_length'] = config.head_dim;
    settings['attention.value_length'] = config.head_dim;
  }
  if (config.sliding_window) settings['attention.sliding_window'] = config.sliding_window;
  if (architecture === 'gemma3') {
    settings['attention.sliding_window_pattern'] = {
      bools: config.layer_types!.map((type) => type === 'sliding_attention'),
    };
  }
  const entries = Object.entries(settings).map(([key, value]) => [`${architecture}.${key}`, value] as const);
  return { 'general.architecture': architecture, 'general.name': 'Tiny', ...Object.fromEntries(entries) };
}

function tokenizerMetadata(directory: string): Record<string, GgufValue> {
  const tokenizer = readJson(directory, 'tokenizer.json') as {
    readonly model: {
      readonly vocab: Readonly<Record<string, number>>;
      readonly merges: readonly (string | string[])[];
    };
    readonly added_tokens: readonly { readonly id: number; readonly content: string; readonly special: boolean }[];
  };
  const tokens: string[] = [];
  for (const [token, id] of Object.entries(tokenizer.model.vocab)) tokens[id] = token;
  const types = tokens.map(() => 1);
  for (const { id, content, special } of tokenizer.added_tokens) {
    tokens[id] = content;
    types[id] = special ? 3 : 4;
  }
  const merges = tokenizer.model.merges.map((merge) => (typeof merge === 'string' ? merge : merge.join(' ')));
  return {
    'tokenizer.ggml.model': 'gpt2',
    'tokenizer.ggml.pre': 'gpt-2',
    'tokenizer.ggml.tokens': { texts: tokens },
    'tokenizer.ggml.token_type': { i32s: types },
    'tokenizer.ggml.merges': { texts: merges },
    'tokenizer.ggml.bos_token_id': 1,
    'tokenizer.ggml.eos_token_id': 2,
    'tokenizer.chat_template': readFileSync(join(directory, 'chat_template.jinja'), 'utf8'),
  };
}

function ggufName(name: string, layerNames: Readonly<Record<string, string>>): string {
  const layer = /^model\.layers\.(\d+)\.(.+)$/.exec(name);
  if (layer !== null) return `blk.${layer[1]}.${layerNames[layer[2]!]}`;
  return (
    { 'model.embed_tokens.weight': 'token_embd.weight', 'model.norm.weight': 'output_norm.weight' }[name] ??
    'output.weight'
  );
}

/** weights.reshape(heads, 2, rows / heads / 2, ...).swapaxes(1, 2).reshape(weights.shape) */
function permute({ shape, data }: SafetensorsTensor, heads: number): Uint8Array {
  const rowBytes = data.length / shape[0]!;
  const half = shape[0]! / heads / 2;
  const rows: Uint8Array[] = [];
  for (let head = 0; head < heads; head++) {
    for (let pair = 0; pair < half; pair++) {
      for (let part = 0; part < 2; part++) {
        const row = (head * 2 + part) * half + pair;
        rows.push(data.subarray(row * rowBytes, (row + 1) * rowBytes));
      }
    }
  }
  return Buffer.concat(rows);
}

/** generate_extra_tensors of the Llama model class. */
function ropeFactors({
  rope_parameters: rope,
  head_dim,
  hidden_size,
  num_attention_heads,
}: Config): number[] | undefined {
  if (rope.rope_type !== 'llama3') return undefined;
  const dimensions = head_dim ?? hidden_size / num_attention_heads;
  const [factor, low, high] = [rope.factor!, rope.low_freq_factor!, rope.high_freq_factor!];
  const original = rope.original_max_position_embeddings!;
  return Array.from({ length: dimensions / 2 }, (_, i) => {
    const wavelength = 2 * Math.PI * rope.rope_theta ** ((2 * i) / dimensions);
    if (wavelength < original / high) return 1;
    if (wavelength > original / low) return factor;
    const smooth = (original / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}

/** fp16 numbers that are neither infinite nor NaN. */
function halves(data: Uint8Array): number[] {
  const bits = new Uint16Array(new Uint8Array(data).buffer);
  return [...bits].map((half) => {
    const exponent = (half >> 10) & 31;
    const size = exponent === 0 ? (half & 1023) * 2 ** -24 : (1024 + (half & 1023)) * 2 ** (exponent - 25);
    return half & 0x8000 ? -size : size;
  });
}

function readJson(directory: string, name: string): unknown {
  return JSON.parse(readFileSync(join(directory, name), 'utf8'));
}
