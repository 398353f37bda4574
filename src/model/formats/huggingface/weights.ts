/** The weights of a model directory: model.safetensors, or the shards that model.safetensors.index.json names. */
import { basename, join } from 'node:path';
import { LoadError } from '../../../errors.js';
import { BinaryFile } from '../binary-file.js';
import { refuseImpostors } from '../impostors.js';
import type { StoredTensor } from '../tensor.js';
import { parseObject, readText } from './json-file.js';
import { readSafetensors, type SafetensorsFile } from './safetensors.js';

export interface Weights {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly headers: readonly Uint8Array[];
  readonly files: readonly BinaryFile[];
}

/**
 * Tensors by name. Where there is an index, only the shards that it names and only the tensors that it places there are
 * seen; other files of the directory are not. Throws LoadError, with everything closed again, when a shard or a tensor of one is missing.
 */
export async function openWeights(directory: string): Promise<Weights> {
  const single = join(directory, 'model.safetensors');
  const index = await readIndex(directory);
  const files: BinaryFile[] = [];
  try {
    if (index === undefined) {
      const { header, tensors } = await openShard(single, files);
      return { tensors, headers: [header], files };
    }
    const shards = new Map<string, SafetensorsFile>();
    for (const shard of new Set(index.values())) shards.set(shard, await openShard(join(directory, shard), files));
    const tensors = new Map<string, StoredTensor>();
    for (const [name, shard] of index) {
      const tensor = shards.get(shard)?.tensors.get(name);
      if (tensor === undefined)
        throw new LoadError(join(directory, shard), `tensor ${name} is missing, which the index places here`);
      tensors.set(name, tensor);
    }
    return { tensors, headers: [...shards.values()].map(({ header }) => header), files };
  } catch (error) {
    await Promise.all(files.map((file) => file.close()));
    throw error;
  }
}

async function openShard(path: string, files: BinaryFile[]): Promise<SafetensorsFile> {
  const file = await BinaryFile.open(path);
  files.push(file);
  await refuseImpostors(file);
  return readSafetensors(file);
}

/** Shard by tensor name, or undefined for a directory with model.safetensors. */
async function readIndex(directory: string): Promise<ReadonlyMap<string, string> | undefined> {
  const path = join(directory, 'model.safetensors.index.json');
  const text = await readText(path);
  if (text === undefined) return undefined;
  const map = parseObject(text).section('weight_map');
  if (map === undefined) throw new LoadError(path, 'weight_map is missing');
  const shards = new Map<string, string>();
  for (const name of Object.keys(map.values)) {
    const shard = map.string(name);
    if (shard !== basename(shard) || shard === '' || shard === '..')
      map.fail(name, `names ${shard}, which is not a file beside it`);
    shards.set(name, shard);
  }
  return shards;
}
