/**
 * Attention of the CPU backend over a paged pool that is only ever read: the step's own keys and values take part
 * straight from the graph and leave it as one output that the runner writes into the pool.
 *
 * Decode rows: the past of a sequence is cut into segments of a few pages. The pages of a segment are gathered through the
 * block table into one run of slots, and all segments, padded to the longest, are one batched product with the queries of
 * their rows. The last segment of a sequence sees the new token as well. The partial results of a sequence's segments are
 * merged by their log-sum-exp, in logical order. How a sequence is cut depends on its length alone, so neither where its
 * pages lie nor what else is in the step changes its sums. Steps of nothing but decodes of one segment each take a branch
 * without the merge, to the same sums.
 *
 * Prefill rows: `prefill.ts`.
 */
import type { Architecture } from '../../architecture.js';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import { dataTypeCode } from '../../graph/data-type.js';
import { ATTENTION_INPUTS, windowInputs } from './attention-inputs.js';
import type { PageFormat } from './pages.js';
import { prefillAttention } from './prefill.js';

/** The step's rows of one layer, rotated; decodes come first. */
export interface Rows {
  /** [1, T, heads * head size] */
  readonly q: Value;
  /** [1, T, KV heads * head size] each, as they go to the pool. */
  readonly k: Value;
  readonly v: Value;
}

/** What attention of one layer is over. */
export interface LayerAttention {
  readonly architecture: Architecture;
  readonly layer: number;
  readonly rows: Rows;
  readonly pages: PageFormat;
}

/**
 * Adds attention for one layer. Returns [1, T, heads * head size].
 */
export function pagedAttention(g: GraphBuilder, attention: LayerAttention): Value {
  const { architecture, layer } = attention;
  return g.scope(`layers.${layer}.attention`, () => {
    const width = architecture.numHeads * architecture.headSize;
    // Branches, because a step without rows of a kind should not pay for it, nor rely on reductions over nothing.
    const branch = (label: string, build: (b: GraphBuilder) => Value) =>
      g.subgraph(label, (b) => b.output(build(b), 'float32', [1, 'rows', width]));
    // Of decodes first, in front of which no rows stand; and then of prompts, which are appended.
    const any = (b: GraphBuilder) => {
      const decoded = b.node('If', [ATTENTION_INPUTS.hasDecodes], {
        name: 'decodes',
        then_branch: branch('some_decodes', (inner) => decodeAttention(inner, attention)),
        else_branch: branch('no_decodes', (inner) =>
          inner.node('Slice', [attention.rows.q, g.int64([0]), g.int64([0]), g.int64([1])], { name: 'no_rows' }),
        ),
      });
      return b.node('If', [ATTENTION_INPUTS.hasPrefills], {
        name: 'prompts',
        then_branch: branch('some_prompts', (inner) => prefillAttention(inner, attention, decoded)),
        else_branch: branch('no_prompts', (inner) => inner.node('Identity', [decoded], { name: 'only_decoded' })),
      });
    };
    // Steps of short decodes alone are the shortest, where nodes count most: they take one branch and nothing else.
    return g.node('If', [ATTENTION_INPUTS.hasOnlyShortDecodes], {
      name: 'short',
      then_branch: branch('short_decodes', (b) => shortDecodeAttention(b, attention)),
      else_branch: branch('any', any),
    });
  });
}

function reshape(g: GraphBuilder, x: Value, shape: readonly number[], name: string): Value {
  return g.node('Reshape', [x, g.int64(shape)], { name });
}

/** Decodes of one segment each, in the order of their rows: nothing to gather by row, and nothing to merge. */
function shortDecodeAttention(g: GraphBuilder, attention: LayerAttention): Value {
  const { numHeads, headSize } = attention.architecture;
  return reshape(g, attendSegments(g, attention, attention.rows).values, [1, -1, numHeads * headSize], 'decoded');
}

/** One new token per sequence, pasts of any number of segments. */
function decodeAttention(g: GraphBuilder, attention: LayerAttention): Value {
  const { rows } = attention;
  const { numHeads, headSize } = attention.architecture;
  const { segmentRows, mergeTable } = ATTENTION_INPUTS;
  const last = g.int64([-1]);

  const ownRows = (x: Value, name: string) => g.node('Gather', [x, segmentRows], { axis: 1, name });
  const { masked, weights, values } = attendSegments(g, attention, {
    q: ownRows(rows.q, 'own_q_rows'),
    k: ownRows(rows.k, 'own_k_rows'),
    v: ownRows(rows.v, 'own_v_rows'),
  });

  // The largest weight is exp(max - lse), which gives the log-sum-exp without a pass of exponentials.
  const largest = (x: Value, name: string) => g.node('ReduceMax', [x, last], { keepdims: 0, name });
  // By way of f64: logarithms round by where they stand in the tensor, which then no longer shows.
  const wide = g.node('Cast', [largest(weights, 'largest_weight')], {
    to: dataTypeCode('float64'),
    name: 'wide_weight',
  });
  const wideLog = g.node('Log', [wide], { name: 'wide_log' });
  const logLargest = g.node('Cast', [wideLog], { to: dataTypeCode('float32'), name: 'log_largest_weight' });
  const lse = g.node('Sub', [largest(masked, 'largest_score'), logLargest], { name: 'lse' });

  // Merge: of each row and head, a softmax over the log-sum-exps of its segments weighs their values. The one segment of a
  // short sequence has all the weight, so that its values leave as they are.
  const lses = g.node('Gather', [reshape(g, lse, [-1], 'lse_flat'), mergeTable], { axis: 0, name: 'merge_lse' });
  const shares = g.node('Unsqueeze', [g.node('Softmax', [lses], { axis: -1, name: 'merge_weights' }), last], {
    name: 'merge_shares',
  });
  const vectors = reshape(g, values, [-1, headSize], 'segment_vectors');
  const parts = g.node('Gather', [vectors, mergeTable], { axis: 0, name: 'merge_values' });
  const products = g.node('Mul', [parts, shares], { name: 'merge_products' });
  const merged = g.node('ReduceSum', [products, g.int64([2])], { keepdims: 0, name: 'merged' });
  return reshape(g, merged, [1, -1, numHeads * headSize], 'decoded');
}

/**
 * What each segment gives its row. Group size G = heads / KV heads; queries of a group share a KV head.
 *
 * @param rows [1, V, width]: of each segment its row
 * @returns scores and weights [V, KV heads, G, 1 + slots], the new token first, and values [V, KV heads, G, head size]
 */
function attendSegments(
  g: GraphBuilder,
  { architecture, layer, pages }: LayerAttention,
  rows: Rows,
): { masked: Value; weights: Value; values: Value } {
  const { numHeads, numKvHeads: kvHeads, headSize } = architecture;
  const segments = pages.segments(g, layer);
  const mask = windowInputs(architecture.layers[layer]?.slidingWindow).segmentMask;
  const { ownAndPast } = ATTENTION_INPUTS;

  // q [V, KH, G, HS], k and v [V, KH, 1, HS].
  const q = reshape(g, rows.q, [-1, kvHeads, numHeads / kvHeads, headSize], 'own_q');
  const k = reshape(g, rows.k, [-1, kvHeads, 1, headSize], 'own_k');
  const v = reshape(g, rows.v, [-1, kvHeads, 1, headSize], 'own_v');
  // Products of single rows are sums of products: a matrix product costs more for each than they take.
  const ownProducts = g.node('Mul', [q, k], { name: 'own_products' });
  const ownDot = g.node('ReduceSum', [ownProducts, g.int64([-1])], { keepdims: 1, name: 'own_dot' });
  const ownScore = g.node('Mul', [ownDot, g.float32Scalar(architecture.attentionScale)], { name: 'own_score' });

  // The new token comes first, so that the padding behind the slots leaves every sum as it is.
  const scores = g.node('Concat', [ownScore, segments.scores(q)], { axis: 3, name: 'scores' });
  const masked = g.node('Add', [scores, mask], { name: 'masked' });
  const weights = g.node('Softmax', [masked], { axis: -1, name: 'weights' });
  const [ownWeight, pastWeights] = g.nodes('Split', [weights, ownAndPast], 2, {
    axis: 3,
    name: 'own_and_past_weights',
  }) as [Value, Value];
  const ownValue = g.node('Mul', [ownWeight, v], { name: 'own_value' });
  const values = g.node('Add', [segments.values(pastWeights), ownValue], { name: 'segment_values' });
  return { masked, weights, values };
}
