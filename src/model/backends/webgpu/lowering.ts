/** The decoder for WebGPU: fp16 rows [T, width], PagedAttention over a cache that never leaves the device. */
import type { Architecture } from '../../architecture.js';
import { Float, type GraphBuilder, type Value } from '../../graph/builder.js';
import type { Lowering } from '../../graph/decoder.js';
import { cacheNames, INPUTS } from './names.js';
import type { RopeTables, StoredWeights } from './weights.js';

const MICROSOFT = 'com.microsoft';

/** `logitRows`: whether the graph has an input that says which rows' logits are wanted; else it gives all. */
export function webgpuLowering(architecture: Architecture, weights: StoredWeights, logitRows: boolean): Lowering {
  return {
    embed(g) {
      const rows = weights.embed(g, INPUTS.tokens);
      if (architecture.embeddingScale === 1) return rows;
      return g.node('Mul', [rows, g.float16Scalar(architecture.embeddingScale)], { name: 'embedding_scaled' });
    },
    linear: (g, layer, input) => weights.linear(g, layer, input),
    attention: (g, layer, qkv) => attention(g, architecture, layer, qkv, weights),
    normWeight: (_, name) => weights.value(name),
    logitRows: (g, rows) =>
      logitRows ? g.node('Gather', [rows, INPUTS.logitRows], { axis: 0, name: 'logit_rows_of' }) : rows,
  };
}

/** Packed rows [T, (heads + 2 KV heads) * head size] in, [T, heads * head size] out; writes the step's keys and values. */
function attention(g: GraphBuilder, architecture: Architecture, layer: number, qkv: Value, weights: StoredWeights) {
  const { numHeads, numKvHeads } = architecture;
  const spec = architecture.layers[layer];
  const rope = weights.ropes[spec?.rope ?? 0] as RopeTables;
  const rows = architecture.qkNorm ? normedHeads(g, architecture, layer, qkv, weights) : [qkv, '', ''];
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
      local_window_size: spec?.slidingWindow ?? -1,
    },
  );
  return output as Value;
}

/** Splits packed rows into q, k and v and normalizes each head of q and k. */
function normedHeads(
  g: GraphBuilder,
  architecture: Architecture,
  layer: number,
  qkv: Value,
  weights: StoredWeights,
): Value[] {
  const { numHeads, numKvHeads, headSize } = architecture;
  return g.scope(`layers.${layer}`, () => {
    const widths = [numHeads, numKvHeads, numKvHeads].map((heads) => heads * headSize);
    const [q, k, v] = g.nodes('Split', [qkv, g.int64(widths)], 3, { name: 'split_qkv', axis: -1 }) as [
      Value,
      Value,
      Value,
    ];
    const norm = (x: Value, name: 'qNorm' | 'kNorm', heads: number) => {
      const byHead = g.node('Reshape', [x, g.int64([-1, headSize])], { name: `${name}_heads` });
      const normed = g.node('SimplifiedLayerNormalization', [byHead, weights.value(`layers.${layer}.${name}`)], {
        name,
        axis: -1,
        epsilon: new Float(architecture.normEpsilon),
      });
      return g.node('Reshape', [normed, g.int64([-1, heads * headSize])], { name: `${name}_rows` });
    };
    return [norm(q, 'qNorm', numHeads), norm(k, 'kNorm', numKvHeads), v];
  });
}
