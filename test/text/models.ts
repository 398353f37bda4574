/** Text models for the tests: the bundled one, the tiny ones, and small ones made up for a case. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gguf } from '@huggingface/gguf';
import { selectChatTemplates } from '../../src/text/chat/select.js';
import { loadTextModel } from '../../src/text/load.js';
import { LoadedTextModel } from '../../src/text/loaded-text-model.js';
import type { TextModel } from '../../src/text/text-model.js';
import { compileTokenizer, type Tokenizer } from '../../src/text/tokenizer/compile.js';
import { readGgufTokenizer } from '../../src/text/tokenizer/gguf.js';

const ROOT = new URL('../../', import.meta.url);
const BUNDLED = fileURLToPath(new URL('models/SmolLM2-135M-Instruct.Q4_1.gguf', ROOT));

export const TINY_MODELS = ['llama', 'llama3-rope', 'qwen2', 'qwen3', 'mistral', 'gemma3', 'phi3'] as const;

export function readFixture<T>(path: string): T {
  return JSON.parse(readFileSync(new URL(`test/fixtures/${path}`, ROOT), 'utf8')) as T;
}

export async function bundledMetadata(): Promise<Record<string, unknown>> {
  const { metadata } = await gguf(BUNDLED, { allowLocalFile: true });
  return { ...metadata };
}

let bundled: Promise<TextModel> | undefined;
export function bundledModel(): Promise<TextModel> {
  bundled ??= bundledMetadata().then((metadata) => loadTextModel({ kind: 'gguf', metadata }, 49152));
  return bundled;
}

/** The bundled model's tokenizer with another chat template. */
export async function withTemplate(template: string): Promise<TextModel> {
  tokenizer ??= bundledMetadata().then((metadata) => {
    const files = readGgufTokenizer(metadata);
    return compileTokenizer(files.tokenizer, files.config, 49152);
  });
  return new LoadedTextModel(await tokenizer, 49152, selectChatTemplates({}, template));
}
let tokenizer: Promise<Tokenizer> | undefined;

export async function tinyModel(name: (typeof TINY_MODELS)[number]): Promise<TextModel> {
  const path = `models/tiny-${name}`;
  const { vocab_size } = readFixture<{ vocab_size: number }>(`${path}/config.json`);
  return loadTextModel(
    {
      kind: 'huggingface',
      tokenizer: readFixture(`${path}/tokenizer.json`),
      config: readFixture(`${path}/tokenizer_config.json`),
      chatTemplate: readFileSync(new URL(`test/fixtures/${path}/chat_template.jinja`, ROOT), 'utf8'),
    },
    vocab_size,
  );
}
