/** Fingerprints follow the contents, not the place. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openCheckpoint } from '../../../src/model/formats/open.js';
import { ggufFile } from '../../support/gguf-file.js';
import { copyModel } from '../../support/model-directory.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { tinyGguf } from '../../support/tiny-gguf.js';

const directory = temporaryDirectory();

async function fingerprint(path: string): Promise<string> {
  const checkpoint = await openCheckpoint(path);
  await checkpoint.close();
  return checkpoint.fingerprint;
}

it('is the same for a copy and another for any change of a directory', async () => {
  const first = await fingerprint(copyModel('tiny-qwen2', join(directory, 'a')));
  expect(first).toMatch(/^[0-9a-f]{64}$/);
  expect(await fingerprint(copyModel('tiny-qwen2', join(directory, 'b')))).toBe(first);

  const weights = readFileSync(join(directory, 'a', 'model.safetensors'));
  const changes = new Set([first]);
  for (const at of [weights.length - 1, weights.length >> 1, weights.length - 120_000]) {
    const damaged = Buffer.from(weights);
    damaged[at]! ^= 1;
    writeFileSync(join(directory, 'b', 'model.safetensors'), damaged);
    changes.add(await fingerprint(join(directory, 'b')));
  }
  changes.add(await fingerprint(copyModel('tiny-qwen2', join(directory, 'c'), { config: { rms_norm_eps: 1e-5 } })));
  changes.add(
    await fingerprint(copyModel('tiny-qwen2', join(directory, 'd'), { files: { 'chat_template.jinja': 'other' } })),
  );
  expect(changes.size).toBe(6);
});

it('is the same for a copy and another for any change of a GGUF file', async () => {
  const contents = tinyGguf('tiny-llama');
  const write = (name: string, bytes: Uint8Array): string => {
    writeFileSync(join(directory, name), bytes);
    return join(directory, name);
  };
  const first = await fingerprint(write('a.gguf', ggufFile(contents)));
  expect(await fingerprint(write('b.gguf', ggufFile(contents)))).toBe(first);
  const renamed = { ...contents, metadata: { ...contents.metadata, 'general.name': 'Other' } };
  expect(await fingerprint(write('c.gguf', ggufFile(renamed)))).not.toBe(first);
  const flipped = ggufFile(contents);
  flipped[flipped.length - 1]! ^= 1;
  expect(await fingerprint(write('d.gguf', flipped))).not.toBe(first);
});
