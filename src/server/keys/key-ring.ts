/** The API keys that a server takes. Keys are compared by their hashes, all of them in constant time. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { ApiKey, type KeySpec } from './api-key.js';

export function hashKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

export class KeyRing {
  private readonly keys: readonly ApiKey[];

  constructor(specs: readonly KeySpec[]) {
    this.keys = specs.map((spec) => new ApiKey(spec));
  }

  /** The key that an Authorization header holds; undefined where it holds none or another. */
  find(authorization: string | undefined): ApiKey | undefined {
    const given = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
    const hash = hashKey(given ?? '');
    let found: ApiKey | undefined;
    for (const key of this.keys) if (timingSafeEqual(hash, key.hash)) found = key;
    return given === undefined ? undefined : found;
  }
}
