/** Models in the layouts of ONNX Runtime's kernels. */
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { InferenceSession } from 'onnxruntime-node';
import { GRAPH_FILE, WEIGHTS_FILE } from '../../prepare.js';
import { EXACT_PRODUCTS, SESSION_OPTIONS } from './session.js';

const PACKED_GRAPH_FILE = 'packed.onnx';
const PACKED_WEIGHTS_FILE = 'packed.bin';

/** Smaller constants stay in the graph's own file. */
const EXTERNAL_BYTES = 1024;

/**
 * Replaces the model in `directory` by one that is optimized for this processor, with its weights as the kernels read them.
 * Sessions map that file instead of each making its own copy of the weights, so that they share one in memory and load
 * faster.
 */
export async function packModel(directory: string): Promise<void> {
  const packed = join(directory, PACKED_GRAPH_FILE);
  const session = await InferenceSession.create(join(directory, GRAPH_FILE), {
    ...SESSION_OPTIONS,
    optimizedModelFilePath: packed,
    extra: {
      session: {
        ...EXACT_PRODUCTS,
        save_external_prepacked_constant_initializers: '1',
        optimized_model_external_initializers_file_name: PACKED_WEIGHTS_FILE,
        optimized_model_external_initializers_min_size_in_bytes: String(EXTERNAL_BYTES),
      },
    },
  });
  await session.release();
  await rename(packed, join(directory, GRAPH_FILE));
  await rm(join(directory, WEIGHTS_FILE), { force: true });
}
