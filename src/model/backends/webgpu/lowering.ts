/** The decoder for WebGPU: fp16 rows [T, width], PagedAttention over a cache that never leaves the device. */
import type { Architecture, LayerSpec, ParameterName } from '../../architecture.js';
import { Float, type GraphBuilder, type Value } from '../../graph/builder.js';
import { type Lowering, splitHalves } from '../../graph/decoder.js';
import { cacheNames, INPUTS } from './names.js';
import type { RopeTables, StoredWeights } from './weights.js';
import { repackedAttention } from './windows.js';

const MICROSOFT = 'com.microsoft';

export interface LoweringOptions {
  /** Whether the graph has an input that says which rows' logits are wanted; else it gives those of all rows. */
  readonly logitRows: boolean;
  /** How sliding windows are computed: by the provider's own kernels, or see `windows.ts`. */
  readonly windows: 'provider' | 'repacked';
}

export function webgpuLowering(architecture: Architecture, weights: StoredWeights, options: LoweringOptions): Lowering {
  return {
    embed(g) {
      const rows = weights.embed(g, INPUTS.tokens);
      if (architecture.embeddingScale === 1) return rows;
      return g.node('Mul', [rows, g.float16Scalar(architecture.embeddingScale)], { name: 'embedding_scaled' });
    },
    linear: (g, layer, input) => weights.linear(g, layer, input),
    gateUp: (g, layer, input) => splitHalves(g, weights.linear(g, layer, input)),
    attention: (g, layer, qkv) => attention(g, architecture, layer, qkv, weights, options),
    fusedAddNorm: true,
    normWeight: (_, name) => weights.value(name),
    logitRows: (g, rows) =>
      options.logitRows ? g.node('Gather', [rows, INPUTS.logitRows], { axis: 0, name: 'logit_rows_of' }) : rows,
  };
}

/** Packed rows [T, (heads + 2 KV heads) * head size] in, [T, heads * head size] out; writes the step's keys and values. */
function attention(
  g: GraphBuilder,
  architecture: Architecture,
  layer: number,
  qkv: Value,
  weights: StoredWeights,
  options: LoweringOptions,
): Value {
  const { numHeads, numKvHeads } = architecture;
  const spec = architecture.layers[layer] as LayerSpec;
  const rope = weights.ropes[spec.rope] as RopeTables;
  const repacked = spec.slidingWindow !== undefined && options.windows === 'repacked';
  let rows = [qkv, '', ''];
  if (architecture.qkNorm || repacked) {
    const [q, k, v] = splitHeads(g, architecture, layer, qkv);
    const norm = (x: Value, name: 'qNorm' | 'kNorm') =>
      architecture.qkNorm ? normHeads(g, architecture, x, `layers.${layer}.${name}`, weights) : x;
    rows = [norm(q, 'qNorm'), norm(k, 'kNorm'), v];
  }
  if (repacked) {
    const [q, k, v] = rows as [Value, Value, Value];
    return repackedAttention(g, architecture, layer, spec.slidingWindow as number, { q, k, v }, rope);
  }
  const { past, present } = cacheNames(layer);
  const [output] = g.nodes(
    'PagedAttention',
    [
      ...rows,
      ...past,
      INPUTS.cumulativeLengths,
      INPUTS.pastLengths,
      INPUTS.blockTable,
      rope.cos,
      rope.sin,
      // slot mapping, head sink, norms of q and k, scales of a quantized cache: none that the provider supports
      ...Array<Value>(6).fill(''),
      INPUTS.metadata,
    ],
    [`layers.${layer}.attention`, ...present],
    {
      domain: MICROSOFT,
      name: `layers.${layer}.attention`,
      num_heads: numHeads,
      kv_num_heads: numKvHeads,
      scale: new Float(architecture.attentionScale),
      do_rotary: 1,
      rotary_interleaved: 0,
      local_window_size: spec.slidingWindow ?? -1,
    },
  );
  return output as Value;
}

function splitHeads(g: GraphBuilder, architecture: Architecture, layer: number, qkv: Value): [Value, Value, Value] {
  const { numHeads, numKvHeads, headSize } = architecture;
  const widths = [numHeads, numKvHeads, numKvHeads].map((heads) => heads * headSize);
  const name = `layers.${layer}.split_qkv`;
  return g.nodes('Split', [qkv, g.int64(widths)], 3, { name, axis: -1 }) as [Value, Value, Value];
}

/** RMSNorm of each head of rows [T, heads * head size]. */
function normHeads(
  g: GraphBuilder,
  architecture: Architecture,
  rows: Value,
  name: ParameterName,
  weights: StoredWeights,
): Value {
  const byHead = g.node('Reshape', [rows, g.int64([-1, architecture.headSize])], { name: `${name}.heads` });
  const normed = g.node('SimplifiedLayerNormalization', [byHead, weights.value(name)], {
    name,
    axis: -1,
    epsilon: new Float(architecture.normEpsilon),
  });
  const width = name.endsWith('qNorm') ? architecture.numHeads : architecture.numKvHeads;
  return g.node('Reshape', [normed, g.int64([-1, width * architecture.headSize])], { name: `${name}.rows` });
}
