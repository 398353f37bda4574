/** Where the repository's files are. Benchmarks run as bundles from node_modules/.cache, so the root is searched upward. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

function findRoot(from: string): string {
  if (existsSync(join(from, 'bench', 'run.mjs'))) return from;
  const parent = dirname(from);
  if (parent === from) throw new Error('the repository was not found above the running script');
  return findRoot(parent);
}

export const root = findRoot(import.meta.dirname);
export const bundledModel = join(root, 'models', 'SmolLM2-135M-Instruct.Q4_1.gguf');
export const fixtures = join(root, 'test', 'fixtures');
/** What benchmarks write for people; not part of the repository. */
export const results = join(root, 'bench', 'results');
