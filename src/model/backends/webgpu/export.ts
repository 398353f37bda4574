/** A graph exported by onnxruntime-genai's builder with paged attention: what has to be known to run it as it is. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import type { EngineConfig } from '../../../engine/protocol.js';
import { LoadError, UserError } from '../../../errors.js';
import { type GraphProto, ModelProtoSchema } from '../../graph/onnx_pb.js';
import type { LoadableGraph } from './load.js';
import { INPUTS, OUTPUTS } from './names.js';

/** Inputs without which a graph has another kind of cache than ours. */
const NEEDED = [INPUTS.tokens, INPUTS.blockTable, INPUTS.cumulativeLengths, INPUTS.pastLengths];
const KNOWN: readonly string[] = Object.values(INPUTS);

export async function exportedGraph(file: string, precision: EngineConfig['precision']): Promise<LoadableGraph> {
  if (precision !== 'auto') {
    throw new UserError(
      `--precision ${precision} does not apply to an exported graph, which is run as it is; use auto.`,
    );
  }
  const graph = await readGraph(file);
  const inputs = graph.input.map(({ name }) => name);
  const missing = NEEDED.filter((name) => !inputs.includes(name));
  if (missing.length > 0) {
    throw new LoadError(
      file,
      `the graph has no input ${missing.join(', ')}; export it with paged attention (use_paged_attention=true)`,
    );
  }
  const unknown = inputs.filter((name) => !KNOWN.includes(name) && !name.startsWith('past_key_values.'));
  if (unknown.length > 0) throw new LoadError(file, `the graph has inputs that are not known: ${unknown.join(', ')}`);
  return {
    runner: { modelFile: file, prunedLogits: givesLastRowsOnly(graph) },
    weightBytes: await onnxBytes(dirname(file)),
    precision: undefined,
  };
}

async function readGraph(file: string): Promise<GraphProto> {
  try {
    const { graph } = fromBinary(ModelProtoSchema, await readFile(file));
    if (graph !== undefined) return graph;
  } catch {
    // said below
  }
  throw new LoadError(file, 'not an ONNX model');
}

/** An export may prune its logits to the last row of each sequence: their first dimension is then the batch's. */
function givesLastRowsOnly(graph: GraphProto): boolean {
  const firstDimension = (values: GraphProto['input'], name: string) => {
    const type = values.find((value) => value.name === name)?.type?.value;
    const dim = type?.case === 'tensorType' ? type.value.shape?.dim[0]?.value : undefined;
    return dim?.case === 'dimParam' ? dim.value : undefined;
  };
  const logits = firstDimension(graph.output, OUTPUTS.logits);
  return logits !== undefined && logits === firstDimension(graph.input, INPUTS.pastLengths);
}

/** Graph and external data together. */
async function onnxBytes(directory: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(directory)) {
    if (/\.(onnx|data)$|\.onnx[._]data$/.test(name)) bytes += (await stat(join(directory, name))).size;
  }
  return bytes;
}
