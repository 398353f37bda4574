/**
 * Opens a model exported by onnxruntime-genai's builder with paged attention: genai_config.json, an ONNX graph that is
 * run as it is, and the tokenizer files of Hugging Face. Its parameters lie in the graph and are not read.
 */
import { stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { LoadError } from '../../../errors.js';
import type { Architecture } from '../../architecture.js';
import type { Checkpoint } from '../checkpoint.js';
import { fingerprint } from '../fingerprint.js';
import { endTokens, generationDefaults } from '../huggingface/generation.js';
import { parseObject, readText } from '../huggingface/json-file.js';
import type { Settings } from '../settings.js';

export const GENAI_CONFIG = 'genai_config.json';

/** Names that our runner knows; an export with others has another kind of cache. */
const EXPECTED_INPUTS = {
  input_ids: 'input_ids',
  past_key_names: 'past_key_values.%d.key',
  past_value_names: 'past_key_values.%d.value',
} as const;

/** Throws LoadError for whatever is missing or wrong. */
export async function openGenai(directory: string): Promise<Checkpoint> {
  const names = [
    GENAI_CONFIG,
    'tokenizer.json',
    'tokenizer_config.json',
    'generation_config.json',
    'chat_template.jinja',
  ] as const;
  const files = await Promise.all(names.map((name) => readText(join(directory, name))));
  const [config, tokenizer, tokenizerConfig, generation, template] = files;
  if (config === undefined) throw new LoadError(directory, `${GENAI_CONFIG} is missing`);
  if (tokenizer === undefined) throw new LoadError(directory, 'tokenizer.json is missing');
  const model = parseObject(config).section('model');
  const decoder = model?.section('decoder');
  if (model === undefined || decoder === undefined) {
    throw new LoadError(config.path, 'model.decoder is missing; only decoder-only language models can be served');
  }
  checkNames(decoder);
  const graphFile = join(directory, decoder.string('filename', 'model.onnx'));
  const size = await fileSize(graphFile);

  const architecture = exportedArchitecture(model, decoder);
  const tokenizerSettings = parseObject(tokenizer);
  const tokenizerConfigSettings = tokenizerConfig && parseObject(tokenizerConfig);
  const unread = (name: string): never => {
    throw new LoadError(directory, `${name} lies in an exported graph, which is run as it is and not read`);
  };
  return {
    path: directory,
    format: 'onnx',
    name: basename(resolve(directory)),
    architecture,
    tokenizer: {
      kind: 'huggingface',
      tokenizer: tokenizerSettings.values,
      config: tokenizerConfigSettings?.values ?? {},
      chatTemplate: template?.text,
    },
    endTokens: endTokens([model], tokenizerSettings, tokenizerConfigSettings, architecture.vocabSize),
    generation: generationDefaults(generation && parseObject(generation)),
    fingerprint: await fingerprint([...files.map((file) => file?.text ?? ''), String(size)], []),
    graphFile,
    info: () => undefined,
    readFloat32: async (name) => unread(name),
    readRaw: async (name) => unread(name),
    close: async () => {},
  };
}

/** What the configuration tells of the model. What only the graph knows (rope, norms, windows) is left neutral. */
function exportedArchitecture(model: Settings, decoder: Settings): Architecture {
  const headSize = decoder.integer('head_size');
  const numHeads = decoder.integer('num_attention_heads');
  return {
    family: model.string('type', 'onnx'),
    vocabSize: model.integer('vocab_size'),
    hiddenSize: decoder.integer('hidden_size'),
    intermediateSize: 0,
    numHeads,
    numKvHeads: decoder.integer('num_key_value_heads', numHeads),
    headSize,
    maxPositions: model.integer('context_length'),
    normEpsilon: 0,
    activation: 'silu',
    embeddingScale: 1,
    attentionScale: 1 / Math.sqrt(headSize),
    qkvBias: false,
    qkNorm: false,
    postNorms: false,
    tiedHead: false,
    ropes: [],
    layers: Array.from({ length: decoder.integer('num_hidden_layers') }, () => ({ rope: 0, slidingWindow: undefined })),
  };
}

function checkNames(decoder: Settings): void {
  const inputs = decoder.section('inputs');
  for (const [key, expected] of Object.entries(EXPECTED_INPUTS)) {
    const name = inputs?.optionalString(key);
    if (name !== undefined && name !== expected) inputs?.fail(key, `is ${name}; only ${expected} is known`);
  }
}

async function fileSize(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch {
    throw new LoadError(path, 'the graph that genai_config.json names is missing');
  }
}
