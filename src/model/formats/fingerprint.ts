/** Tells the contents of checkpoints apart, for cache keys. */
import { createHash } from 'node:crypto';
import type { StoredTensor } from './tensor.js';

const SAMPLE_BYTES = 1 << 16;

/**
 * sha256, in hex, of: the settings given (config files, headers) in full, and of every tensor its name, type, shape and
 * the first and last 64 KiB of its data. It does not see a change that is confined to the middle of large tensors, which
 * retraining, merging or requantizing never is. It does not depend on paths, file names or times.
 */
export async function fingerprint(
  settings: Iterable<string | Uint8Array>,
  tensors: Iterable<StoredTensor>,
): Promise<string> {
  const hash = createHash('sha256');
  for (const part of settings) hash.update(`${part.length}:`).update(part);
  const sample = new Uint8Array(SAMPLE_BYTES);
  for (const { file, name, type, shape, offset, bytes } of tensors) {
    hash.update(JSON.stringify([name, type, shape]));
    const head = sample.subarray(0, Math.min(bytes, SAMPLE_BYTES));
    await file.readInto(head, offset);
    hash.update(head);
    if (bytes <= SAMPLE_BYTES) continue;
    const tail = sample.subarray(0, Math.min(bytes - SAMPLE_BYTES, SAMPLE_BYTES));
    await file.readInto(tail, offset + bytes - tail.length);
    hash.update(tail);
  }
  return hash.digest('hex');
}
