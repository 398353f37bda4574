/** A model in the layout of onnxruntime-genai's paged exports runs from disk with the tokens of the model it was made of. */
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildWebGpuGraph } from '../../src/model/backends/webgpu/graph.js';
import { OUTPUTS } from '../../src/model/backends/webgpu/names.js';
import { openCheckpoint } from '../../src/model/formats/open.js';
import { GraphBuilder } from '../../src/model/graph/builder.js';
import { WeightStore } from '../../src/model/graph/weight-store.js';
import type { ModelRunner } from '../../src/model/runner.js';
import { readExpected } from '../support/greedy.js';
import { wrongChoices } from './support/follow.js';
import { loadOnDevice, MODELS } from './support/models.js';

const SOURCE = join(MODELS, 'tiny-llama');
const cases = readExpected('tiny-llama');

/** An export gives the logits of every row, or only of the last row of each sequence ("pruned"). */
async function writeExport(directory: string, pruned: boolean): Promise<void> {
  await mkdir(directory, { recursive: true });
  const checkpoint = await openCheckpoint(SOURCE);
  const g = new GraphBuilder('main_graph');
  const store = await WeightStore.create(directory, 'model.onnx.data');
  const options = { precision: 'fp16', windows: 'provider', logitRows: false } as const;
  await buildWebGpuGraph(pruned ? prune(g) : g, store, checkpoint, options);
  await store.close();
  await checkpoint.close();
  await writeFile(join(directory, 'model.onnx'), g.toBytes());
  const { vocabSize, hiddenSize, numHeads, numKvHeads, headSize, layers, maxPositions } = checkpoint.architecture;
  const config = {
    model: {
      bos_token_id: 1,
      context_length: maxPositions,
      decoder: {
        session_options: { log_id: 'onnxruntime-genai', provider_options: [{ webgpu: {} }] },
        filename: 'model.onnx',
        head_size: headSize,
        hidden_size: hiddenSize,
        inputs: {
          input_ids: 'input_ids',
          past_key_names: 'past_key_values.%d.key',
          past_value_names: 'past_key_values.%d.value',
        },
        outputs: {
          logits: 'logits',
          present_key_names: 'present.%d.key',
          present_value_names: 'present.%d.value',
        },
        num_attention_heads: numHeads,
        num_hidden_layers: layers.length,
        num_key_value_heads: numKvHeads,
      },
      eos_token_id: [2],
      pad_token_id: 0,
      type: 'llama',
      vocab_size: vocabSize,
    },
  };
  await writeFile(join(directory, 'genai_config.json'), JSON.stringify(config));
  for (const name of ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja']) {
    await cp(join(SOURCE, name), join(directory, name));
  }
}

/** The same builder, but what it declares as logits is gathered at the last row of each sequence. */
function prune(g: GraphBuilder): GraphBuilder {
  const output = g.output.bind(g);
  g.output = (name, type, shape) => {
    if (name !== OUTPUTS.logits) return output(name, type, shape);
    return output(name, type, ['batch_size', ...shape.slice(1)]);
  };
  const nodes = g.nodes.bind(g);
  g.nodes = (op, inputs, outputs, attributes) => {
    if (op !== 'Cast' || !Array.isArray(outputs) || outputs[0] !== OUTPUTS.logits)
      return nodes(op, inputs, outputs, attributes);
    const one = g.constant('int32', [1], Int32Array.of(1));
    const ends = g.node('Slice', ['cumulative_sequence_lengths', g.int64([1]), g.int64([2 ** 31])], { name: 'ends' });
    const last = g.node('Gather', [inputs[0]!, g.node('Sub', [ends, one], { name: 'last' })], {
      axis: 0,
      name: 'pruned',
    });
    return nodes(op, [last], outputs, attributes);
  };
  return g;
}

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-export-'));
});
afterAll(() => rm(root, { recursive: true }));

describe.each([
  ['with the logits of all rows', false],
  ['with pruned logits', true],
])('an export %s', (_, pruned) => {
  let runner: ModelRunner;

  beforeAll(async () => {
    const directory = join(root, pruned ? 'pruned' : 'full');
    await writeExport(directory, pruned);
    const loaded = await loadOnDevice(directory, { device: 'auto' });
    expect(loaded.maxModelLen).toBe(1024);
    runner = loaded.runner;
  });
  afterAll(() => runner.dispose());

  it.each([5, 64])('chooses the same tokens in prefill chunks of %i', async (chunk) => {
    expect(await wrongChoices(runner, cases, 0.05, { chunk, known: () => Number.POSITIVE_INFINITY })).toEqual([]);
  });

  it('chooses them in a batch of prefills and decodes', async () => {
    const known = (index: number) => [0, 50, 33][index]!;
    expect(await wrongChoices(runner, cases, 0.05, { chunk: 16, known })).toEqual([]);
  });
});

describe('what is refused', () => {
  it('a device other than WebGPU, and a precision', async () => {
    const directory = join(root, 'full');
    await expect(loadOnDevice(directory, { device: 'cpu' })).rejects.toThrow(/--device webgpu/);
    await expect(loadOnDevice(directory, { precision: 'int8' })).rejects.toThrow(/run as it is/);
  });

  it('a graph without a paged cache, and one that is not there', async () => {
    const directory = join(root, 'other');
    await cp(join(root, 'full'), directory, { recursive: true });
    const g = new GraphBuilder('main_graph');
    g.input('input_ids', 'int64', [1, 'T']);
    g.input('attention_mask', 'int64', [1, 'T']);
    await writeFile(join(directory, 'model.onnx'), g.toBytes());
    await expect(loadOnDevice(directory)).rejects.toThrow(/block_table.*use_paged_attention/);
    await rm(join(directory, 'model.onnx'));
    await expect(loadOnDevice(directory)).rejects.toThrow(
      /model\.onnx: the graph that genai_config\.json names is missing/,
    );
  });
});
