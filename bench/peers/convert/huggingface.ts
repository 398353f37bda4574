/**
 * A checkpoint as a Hugging Face directory, which converters of other engines read: config.json, tokenizer.json and
 * fp16 safetensors. Of the Llama family, which is what the bundled model is.
 */
import { mkdir, open, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Architecture, LayerParameter, ParameterName } from '../../../src/model/architecture.js';
import { toFloat16 } from '../../../src/model/float16.js';
import type { Checkpoint } from '../../../src/model/formats/checkpoint.js';
import { huggingfaceNaming } from '../../../src/model/formats/huggingface/naming.js';
import { openCheckpoint } from '../../../src/model/formats/open.js';
import { parameterShapes } from '../../../src/model/formats/parameters.js';
import { readGgufTokenizer } from '../../../src/text/tokenizer/gguf.js';

export async function exportHuggingface(source: string, directory: string): Promise<void> {
  const checkpoint = await openCheckpoint(source);
  const unfinished = `${directory}.unfinished`;
  try {
    const { architecture, tokenizer } = checkpoint;
    if (architecture.family !== 'llama' || tokenizer.kind !== 'gguf') {
      throw new Error(`${source}: only GGUF files of the Llama family are exported`);
    }
    await rm(unfinished, { recursive: true, force: true });
    await mkdir(unfinished, { recursive: true });
    const files = readGgufTokenizer(tokenizer.metadata);
    const endToken = Number(tokenizer.metadata['tokenizer.ggml.eos_token_id']);
    const json = (name: string, value: unknown) => writeFile(join(unfinished, name), JSON.stringify(value));
    await json('config.json', configOf(architecture, endToken));
    await json('tokenizer.json', completeTokenizer(files.tokenizer as TokenizerJson));
    await json('tokenizer_config.json', { ...files.config, tokenizer_class: 'PreTrainedTokenizerFast' });
    await json('generation_config.json', { eos_token_id: endToken });
    await writeSafetensors(join(unfinished, 'model.safetensors'), checkpoint);
  } finally {
    await checkpoint.close();
  }
  await (await openCheckpoint(unfinished)).close();
  await rename(unfinished, directory);
}

/** Fields that the tokenizers library insists on, where ours reads their absence as these values. */
const BYTE_LEVEL = { add_prefix_space: false, trim_offsets: true, use_regex: true };
const ADDED_TOKEN = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };

interface TokenizerJson {
  readonly model: { readonly vocab: Readonly<Record<string, number>> };
  readonly added_tokens: readonly { readonly content: string; readonly id: number }[];
}

/** The vocabulary with the added tokens in it, without which transformers gives them new ids. */
function completeTokenizer(tokenizer: TokenizerJson): unknown {
  const added = Object.fromEntries(tokenizer.added_tokens.map(({ content, id }) => [content, id]));
  const whole = { ...tokenizer, model: { ...tokenizer.model, vocab: { ...added, ...tokenizer.model.vocab } } };
  return JSON.parse(JSON.stringify(whole), (key, value) => {
    if (value?.type === 'ByteLevel') return { ...BYTE_LEVEL, ...value };
    if (key === 'added_tokens') return (value as object[]).map((token) => ({ ...ADDED_TOKEN, ...token }));
    return value;
  });
}

function configOf(architecture: Architecture, endToken: number): Record<string, unknown> {
  const frequencies = architecture.ropes[0]!.inverseFrequencies;
  const theta = Math.round(frequencies[1]! ** (-architecture.headSize / 2));
  const last = theta ** ((-2 * (frequencies.length - 1)) / architecture.headSize);
  if (Math.abs(last / frequencies.at(-1)! - 1) > 1e-6) throw new Error('scaled RoPE is not exported');
  return {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    vocab_size: architecture.vocabSize,
    hidden_size: architecture.hiddenSize,
    intermediate_size: architecture.intermediateSize,
    num_hidden_layers: architecture.layers.length,
    num_attention_heads: architecture.numHeads,
    num_key_value_heads: architecture.numKvHeads,
    head_dim: architecture.headSize,
    hidden_act: 'silu',
    max_position_embeddings: architecture.maxPositions,
    rms_norm_eps: architecture.normEpsilon,
    // Under both names that libraries have had for it.
    rope_theta: theta,
    rope_parameters: { rope_type: 'default', rope_theta: theta },
    tie_word_embeddings: architecture.tiedHead,
    attention_bias: false,
    mlp_bias: false,
    bos_token_id: endToken,
    eos_token_id: endToken,
    torch_dtype: 'float16',
  };
}

/** Layout: an 8-byte length, that many bytes of JSON with each tensor's type, shape and place, then the data. */
async function writeSafetensors(path: string, checkpoint: Checkpoint): Promise<void> {
  const parameters = [...parameterShapes(checkpoint.architecture)];
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let end = 0;
  for (const [name, shape] of parameters) {
    const start = end;
    end += 2 * shape.reduce((a, b) => a * b, 1);
    header[tensorName(name)] = { dtype: 'F16', shape, data_offsets: [start, end] };
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const file = await open(path, 'w');
  try {
    await file.writev([length, text]);
    for (const [name] of parameters) {
      const halves = toFloat16(await checkpoint.readFloat32(name));
      await file.write(new Uint8Array(halves.buffer));
    }
  } finally {
    await file.close();
  }
}

const naming = huggingfaceNaming('', 'llama', new Map([['model.embed_tokens.weight', undefined]]));

function tensorName(name: ParameterName): string {
  const [, layer, parameter] = /^layers\.(\d+)\.(\w+)$/.exec(name) ?? [];
  if (layer === undefined) return naming.globals[name as keyof typeof naming.globals];
  return `${naming.layerPrefix(Number(layer))}${naming.layer[parameter as LayerParameter]}`;
}
