/** Inputs and outputs of the CPU graph and the parts around its linear layers and attention. Rows are [1, T, width]. */
import type { Architecture } from '../../architecture.js';
import { Float, type GraphBuilder, type Value } from '../../graph/builder.js';
import { pagedAttention } from './attention.js';
import type { PageFormat } from './pages.js';

export const ROW_INPUTS = {
  /** i64 [1, T] */
  tokens: 'input_ids',
  /** i64 [1, T] position of each row in its sequence. */
  positions: 'position_ids',
  /** i64 [S] rows whose logits are wanted. */
  logitRows: 'logit_rows',
} as const;

export function declareRowInputs(g: GraphBuilder): void {
  g.input(ROW_INPUTS.tokens, 'int64', [1, 'T']);
  g.input(ROW_INPUTS.positions, 'int64', [1, 'T']);
  g.input(ROW_INPUTS.logitRows, 'int64', ['S']);
}

export interface LoweringOptions {
  /** Positions that the rope tables cover. */
  readonly positions: number;
  readonly pages: PageFormat;
}

/** cos and sin tables of each rope, f32 [positions, dimensions / 2], as constants of the graph. */
export interface RopeTables {
  readonly cos: Value;
  readonly sin: Value;
}

/**
 * From packed rows [1, T, (heads + 2 KV heads) * head size] to attention's output [1, T, heads * head size]: norms of
 * single heads, rotation, attention. Returns the layer's k and v for the pool as well, [1, T, KV heads * head size] each.
 */
export function attentionBlock(
  g: GraphBuilder,
  architecture: Architecture,
  layer: number,
  qkv: Value,
  rope: RopeTables,
  headNorm: Value | undefined,
  pages: PageFormat,
): { output: Value; k: Value; v: Value } {
  const { numHeads, numKvHeads, headSize } = architecture;
  const prefix = `layers.${layer}`;
  const qWidth = numHeads * headSize;
  const kvWidth = numKvHeads * headSize;
  const split = (x: Value, name: string, widths: readonly number[]) =>
    g.nodes('Split', [x, g.int64(widths)], widths.length, { name: `${prefix}.${name}`, axis: 2 });

  let [queryKey, v] = split(qkv, 'split_qk_v', [qWidth + kvWidth, kvWidth]) as [Value, Value];
  if (headNorm !== undefined) {
    const heads = numHeads + numKvHeads;
    const byHead = g.node('Reshape', [queryKey, g.int64([1, -1, heads, headSize])], { name: `${prefix}.qk_heads` });
    const ones = g.constant('float32', [headSize], new Float32Array(headSize).fill(1));
    const normed = g.node('SimplifiedLayerNormalization', [byHead, ones], {
      name: `${prefix}.qk_norm`,
      axis: -1,
      epsilon: new Float(architecture.normEpsilon),
    });
    const weighted = g.node('Mul', [normed, headNorm], { name: `${prefix}.qk_norm_weight` });
    queryKey = g.node('Reshape', [weighted, g.int64([1, -1, qWidth + kvWidth])], { name: `${prefix}.qk_rows` });
  }
  const dimensions = architecture.ropes[architecture.layers[layer]?.rope ?? 0]?.dimensions ?? headSize;
  const rotated = g.node('RotaryEmbedding', [queryKey, ROW_INPUTS.positions, rope.cos, rope.sin], {
    domain: 'com.microsoft',
    name: `${prefix}.rope`,
    interleaved: 0,
    num_heads: numHeads + numKvHeads,
    // 0 stands for the whole head, and is the only value the operator takes without `num_heads` checks.
    rotary_embedding_dim: dimensions === headSize ? 0 : dimensions,
  });
  const [q, k] = split(rotated, 'split_q_k', [qWidth, kvWidth]) as [Value, Value];
  return { output: pagedAttention(g, { architecture, layer, rows: { q, k, v }, pages }), k, v };
}
