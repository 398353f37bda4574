/** Opens a model directory in the layout of Hugging Face: config.json, safetensors, tokenizer files. */
import { basename, join, resolve } from 'node:path';
import { LoadError } from '../../../errors.js';
import { bindParameters } from '../bind.js';
import type { Checkpoint, TokenizerSource } from '../checkpoint.js';
import { fingerprint } from '../fingerprint.js';
import type { Settings } from '../settings.js';
import { tensorCheckpoint } from '../tensor-checkpoint.js';
import { decoderConfig, huggingfaceArchitecture } from './architecture.js';
import { endTokens, generationDefaults } from './generation.js';
import { parseObject, readText, type TextFile } from './json-file.js';
import { huggingfaceNaming } from './naming.js';
import { openWeights, type Weights } from './weights.js';

interface TextFiles {
  readonly config: Settings;
  readonly generation: Settings | undefined;
  readonly tokenizer: Settings;
  readonly tokenizerConfig: Settings | undefined;
  readonly chatTemplate: string | undefined;
  /** All of them as read, for the fingerprint. */
  readonly texts: readonly string[];
}

/** Throws LoadError, with every file closed again, for whatever is missing or wrong. */
export async function openHuggingface(directory: string): Promise<Checkpoint> {
  const files = await readTextFiles(directory);
  const weights = await openWeights(directory);
  try {
    return await assemble(directory, files, weights);
  } catch (error) {
    await Promise.all(weights.files.map((file) => file.close()));
    throw error;
  }
}

async function assemble(directory: string, files: TextFiles, weights: Weights): Promise<Checkpoint> {
  const { tensors } = weights;
  const decoder = decoderConfig(files.config);
  const naming = huggingfaceNaming(directory, decoder.family, tensors);
  const architecture = huggingfaceArchitecture(
    decoder,
    { tensorCount: tensors.size, hasHead: tensors.has(naming.globals.head) },
    decoder.config.optionalBoolean('tie_word_embeddings') ?? files.config.optionalBoolean('tie_word_embeddings'),
  );
  const tokenizer: TokenizerSource = {
    kind: 'huggingface',
    tokenizer: files.tokenizer.values,
    config: files.tokenizerConfig?.values ?? {},
    chatTemplate: files.chatTemplate,
  };
  return tensorCheckpoint(
    {
      path: directory,
      format: 'safetensors',
      name: basename(resolve(directory)),
      architecture,
      tokenizer,
      endTokens: endTokens(
        [files.config, decoder.config, files.generation],
        files.tokenizer,
        files.tokenizerConfig,
        architecture.vocabSize,
      ),
      generation: generationDefaults(files.generation),
      fingerprint: await fingerprint([...files.texts, ...weights.headers], tensors.values()),
    },
    bindParameters(directory, architecture, tensors, naming),
    weights.files,
  );
}

async function readTextFiles(directory: string): Promise<TextFiles> {
  const [config, generation, tokenizer, tokenizerConfig, jinja, jsonTemplate] = await Promise.all(
    [
      'config.json',
      'generation_config.json',
      'tokenizer.json',
      'tokenizer_config.json',
      'chat_template.jinja',
      'chat_template.json',
    ].map((name) => readText(join(directory, name))),
  );
  if (config === undefined) {
    throw new LoadError(directory, 'the directory has no config.json; a model directory or a GGUF file is needed');
  }
  if (tokenizer === undefined) throw new LoadError(directory, 'tokenizer.json is missing');
  const parse = (file: TextFile | undefined): Settings | undefined =>
    file === undefined ? undefined : parseObject(file);
  return {
    config: parseObject(config),
    generation: parse(generation),
    tokenizer: parseObject(tokenizer),
    tokenizerConfig: parse(tokenizerConfig),
    chatTemplate: jinja?.text ?? parse(jsonTemplate)?.optionalString('chat_template'),
    texts: [config, generation, tokenizer, tokenizerConfig, jinja, jsonTemplate].map((file) => file?.text ?? ''),
  };
}
