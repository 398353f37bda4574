/** Exports of onnxruntime-genai: what is read of them, and what is refused by name. */
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openCheckpoint } from '../../../src/model/formats/open.js';

const SOURCE = fileURLToPath(new URL('../../fixtures/models/tiny-llama', import.meta.url));
const CONFIG = {
  model: {
    context_length: 1024,
    decoder: {
      filename: 'decoder.onnx',
      head_size: 16,
      hidden_size: 64,
      inputs: { input_ids: 'input_ids', past_key_names: 'past_key_values.%d.key' },
      num_attention_heads: 4,
      num_hidden_layers: 3,
      num_key_value_heads: 2,
    },
    eos_token_id: [2, 5],
    type: 'llama',
    vocab_size: 512,
  },
};

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-genai-'));
  await cp(join(SOURCE, 'tokenizer.json'), join(directory, 'tokenizer.json'));
  await cp(join(SOURCE, 'tokenizer_config.json'), join(directory, 'tokenizer_config.json'));
  await writeFile(join(directory, 'decoder.onnx'), 'not read here');
  await writeFile(join(directory, 'genai_config.json'), JSON.stringify(CONFIG));
});
afterEach(() => rm(directory, { recursive: true }));

async function refusal(config: unknown): Promise<string> {
  await writeFile(join(directory, 'genai_config.json'), JSON.stringify(config));
  return openCheckpoint(directory).then(
    () => 'opened',
    (error: Error) => error.message.replace(directory, 'DIR'),
  );
}

const withDecoder = (decoder: object) => ({
  model: { ...CONFIG.model, decoder: { ...CONFIG.model.decoder, ...decoder } },
});

describe('an export', () => {
  it('tells sizes, tokenizer, end tokens and its graph', async () => {
    const checkpoint = await openCheckpoint(directory);
    expect(checkpoint).toMatchObject({
      format: 'onnx',
      graphFile: join(directory, 'decoder.onnx'),
      endTokens: [2, 5],
      architecture: { vocabSize: 512, headSize: 16, numHeads: 4, numKvHeads: 2, maxPositions: 1024 },
    });
    expect(checkpoint.architecture.layers).toHaveLength(3);
    expect(checkpoint.tokenizer.kind).toBe('huggingface');
    expect(checkpoint.info('embedding')).toBeUndefined();
    await expect(checkpoint.readFloat32('embedding')).rejects.toThrow(/exported graph/);
  });

  it('is refused by the name of what is missing or not known', async () => {
    expect(await refusal({})).toMatch(/^DIR\/genai_config\.json: model\.decoder is missing/);
    expect(await refusal(withDecoder({ head_size: undefined }))).toBe(
      'DIR/genai_config.json: model.decoder.head_size is missing',
    );
    expect(await refusal(withDecoder({ filename: 'gone.onnx' }))).toMatch(/^DIR\/gone\.onnx: .*missing/);
    expect(await refusal(withDecoder({ inputs: { past_key_names: 'cache.%d' } }))).toMatch(
      /past_key_names is cache\.%d/,
    );
    await rm(join(directory, 'tokenizer.json'));
    expect(await refusal(CONFIG)).toBe('DIR: tokenizer.json is missing');
  });
});
