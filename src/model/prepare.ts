/**
 * Prepared models on disk: the graph and its weights in the layout of one lowering, made once for a checkpoint and
 * reused at the next start. A directory is written under another name and renamed when complete, so that a start that
 * was cut off leaves nothing that looks finished.
 */
import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { GraphBuilder } from './graph/builder.js';
import { WeightStore } from './graph/weight-store.js';

/** Raised whenever any lowering, or packing, changes what it writes, so that older files are not taken for current ones. */
const LAYOUT_VERSION = 34;

/** Name of the graph's file in the directory of a prepared model. */
export const GRAPH_FILE = 'model.onnx';
/** Name of the weights' file beside the graph. */
export const WEIGHTS_FILE = 'weights.bin';

/** $SLUICE_CACHE_DIR, else the user's cache directory. */
export function cacheDirectory(): string {
  const { SLUICE_CACHE_DIR, XDG_CACHE_HOME } = process.env;
  return SLUICE_CACHE_DIR ?? join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'sluice');
}

/**
 * Returns the path of the prepared ONNX file for `key` (everything its contents depend on), building it when it is not
 * there yet.
 * @param finish changes the files in their directory before anyone sees them
 */
export async function prepareModel(
  key: readonly (string | number)[],
  build: (g: GraphBuilder, store: WeightStore) => Promise<void>,
  finish?: (directory: string) => Promise<void>,
): Promise<string> {
  const digest = createHash('sha256')
    .update(JSON.stringify([LAYOUT_VERSION, ...key]))
    .digest('hex');
  const directory = join(cacheDirectory(), 'prepared', digest.slice(0, 32));
  const graphFile = join(directory, GRAPH_FILE);
  if (existsSync(graphFile)) return graphFile;

  const unfinished = `${directory}.${randomUUID()}`;
  await mkdir(unfinished, { recursive: true });
  try {
    const store = await WeightStore.create(unfinished, WEIGHTS_FILE);
    const g = new GraphBuilder('decoder');
    try {
      await build(g, store);
    } finally {
      await store.close();
    }
    await writeFile(join(unfinished, GRAPH_FILE), g.toBytes());
    await finish?.(unfinished);
    await rename(unfinished, directory);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    // Another process may have finished the same model first; its files are as good.
    if (!existsSync(graphFile)) throw error;
  }
  return graphFile;
}
