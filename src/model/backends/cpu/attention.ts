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
 * Prefill rows: a Loop over tiles of a chunk. Each gathers the pages of its past, adds the chunk's rows before it and runs
 * one fused GroupQueryAttention, so that nothing beyond the causal edge of a tile is computed or padded.
 */
import type { Architecture } from '../../architecture.js';
import { Float, type GraphBuilder, type Value } from '../../graph/builder.js';
import { dataTypeCode } from '../../graph/data-type.js';

const MICROSOFT = 'com.microsoft';

/** Names of the graph inputs that steer attention; `step-inputs.ts` fills them. D decodes, V segments, n pages of each. */
export const ATTENTION_INPUTS = {
  /** bool [] each: whether the step has rows of this kind. */
  hasDecodes: 'has_decodes',
  hasPrefills: 'has_prefills',
  /** bool [] whether the step's rows are all decodes and each sees a single segment: segment v is that of row v. */
  hasOnlyShortDecodes: 'has_only_short_decodes',
  /** i32 [V] decode row that a segment belongs to. */
  segmentRows: 'segment_rows',
  /** i32 [V, KV heads, n] rows of the pool: page * KV heads + KV head. */
  segmentPages: 'segment_pages',
  /** i64 [2] 1 and the slots of a segment, n * page size. */
  ownAndPast: 'own_and_past',
  /**
   * i32 [D, heads, M] where the partial results of a row's head lie, in logical order: segment * heads + head. Rows of
   * fewer than M segments are padded with one that is masked as a whole.
   */
  mergeTable: 'merge_table',
  /** i64 [] number of tiles. */
  tileCount: 'tile_count',
} as const;

/** Inputs that depend on a layer's window: one set for each distinct window of the model. */
export function windowInputs(window: number | undefined) {
  const suffix = window === undefined ? '' : `_window_${window}`;
  return {
    /** f32 [V, 1, 1, 1 + n * page size] 0 where the new token, or a slot, may be seen, else very negative. */
    segmentMask: `segment_mask${suffix}`,
    /** i64 [N, 7] what a tile computes and sees: `TILE_FIELDS`. */
    tiles: `tiles${suffix}`,
    /** i32 [any] first pool rows (page * KV heads) of the pages of the tiles' pasts, one tile after another. */
    tilePages: `tile_pages${suffix}`,
  };
}

/**
 * Of each tile: its first and end row and the first row of its chunk that it sees, among the step's rows; the number of
 * past tokens that it sees; where its past pages begin and end in `tilePages`; how many slots of the first page to skip.
 */
export const TILE_FIELDS = ['begin', 'end', 'chunk', 'past', 'pagesBegin', 'pagesEnd', 'skip'] as const;

/** Element type of the pool. Half precision halves the bytes of a decode step; products are in f32 either way. */
export type CacheType = 'float32' | 'float16';

export function declareAttentionInputs(
  g: GraphBuilder,
  architecture: Architecture,
  blockSize: number,
  cacheType: CacheType,
): void {
  const I = ATTENTION_INPUTS;
  const heads = architecture.numHeads;
  g.input(I.hasDecodes, 'bool', []);
  g.input(I.hasPrefills, 'bool', []);
  g.input(I.hasOnlyShortDecodes, 'bool', []);
  g.input(I.segmentRows, 'int32', ['V']);
  g.input(I.segmentPages, 'int32', ['V', architecture.numKvHeads, 'n']);
  g.input(I.ownAndPast, 'int64', [2]);
  g.input(I.mergeTable, 'int32', ['D', heads, 'M']);
  g.input(I.tileCount, 'int64', []);
  for (const window of distinctWindows(architecture)) {
    const W = windowInputs(window);
    g.input(W.segmentMask, 'float32', ['V', 1, 1, 'slots']);
    g.input(W.tiles, 'int64', ['N', TILE_FIELDS.length]);
    g.input(W.tilePages, 'int32', ['Q']);
  }
  architecture.layers.forEach((_, n) => {
    for (const name of Object.values(cacheInputs(n))) {
      g.input(name, cacheType, ['pool rows', blockSize * architecture.headSize]);
    }
  });
}

export function distinctWindows(architecture: Architecture): (number | undefined)[] {
  return [...new Set(architecture.layers.map((layer) => layer.slidingWindow))];
}

/** [pages * KV heads, page size * head size] each. */
export function cacheInputs(layer: number): { key: Value; value: Value } {
  return { key: `past_key_values.${layer}.key`, value: `past_key_values.${layer}.value` };
}

/** The step's rows of one layer, rotated; decodes come first. */
export interface Rows {
  /** [1, T, heads * head size] */
  readonly q: Value;
  /** [1, T, 2 * KV heads * head size]: each row's k and v, as they go to the pool. */
  readonly present: Value;
}

/** What attention of one layer is over. */
export interface LayerAttention {
  readonly architecture: Architecture;
  readonly layer: number;
  readonly rows: Rows;
  readonly cacheType: CacheType;
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
    const decodes = (b: GraphBuilder) => decodeAttention(b, attention);
    const prefills = (b: GraphBuilder) => {
      const decoded = b.node('If', [ATTENTION_INPUTS.hasDecodes], {
        name: 'decodes_beside',
        then_branch: branch('some_decodes', decodes),
        else_branch: branch('no_decodes', (inner) =>
          inner.node('Slice', [attention.rows.q, g.int64([0]), g.int64([0]), g.int64([1])], { name: 'no_rows' }),
        ),
      });
      return prefillAttention(b, attention, decoded);
    };
    // Steps of short decodes alone are the shortest, where nodes count most: they take one branch and nothing else.
    return g.node('If', [ATTENTION_INPUTS.hasOnlyShortDecodes], {
      name: 'short',
      then_branch: branch('short_decodes', (b) => shortDecodeAttention(b, attention)),
      else_branch: branch('any', (b) =>
        b.node('If', [ATTENTION_INPUTS.hasPrefills], {
          name: 'rows',
          then_branch: branch('prefills', prefills),
          else_branch: branch('only_decodes', decodes),
        }),
      ),
    });
  });
}

function asFloat32(g: GraphBuilder, pages: Value, cacheType: CacheType): Value {
  return cacheType === 'float32' ? pages : g.node('Cast', [pages], { to: dataTypeCode('float32'), name: 'pages_f32' });
}

function reshape(g: GraphBuilder, x: Value, shape: readonly number[], name: string): Value {
  return g.node('Reshape', [x, g.int64(shape)], { name });
}

/** Decodes of one segment each, in the order of their rows: nothing to gather by row, and nothing to merge. */
function shortDecodeAttention(g: GraphBuilder, attention: LayerAttention): Value {
  const { numHeads, headSize } = attention.architecture;
  const { q, present } = attention.rows;
  return reshape(g, attendSegments(g, attention, q, present).values, [1, -1, numHeads * headSize], 'decoded');
}

/** One new token per sequence, pasts of any number of segments. */
function decodeAttention(g: GraphBuilder, attention: LayerAttention): Value {
  const { rows } = attention;
  const { numHeads, headSize } = attention.architecture;
  const { segmentRows, mergeTable } = ATTENTION_INPUTS;
  const last = g.int64([-1]);

  const ownRows = (x: Value, name: string) => g.node('Gather', [x, segmentRows], { axis: 1, name });
  const { masked, weights, values } = attendSegments(
    g,
    attention,
    ownRows(rows.q, 'own_q_rows'),
    ownRows(rows.present, 'own_k_v_rows'),
  );

  // The largest weight is exp(max - lse), which gives the log-sum-exp without a pass of exponentials.
  const largest = (x: Value, name: string) => g.node('ReduceMax', [x, last], { keepdims: 0, name });
  const logLargest = g.node('Log', [largest(weights, 'largest_weight')], { name: 'log_largest_weight' });
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
 * @param queries [1, V, heads * head size]: of each segment's row
 * @param present [1, V, 2 * KV heads * head size]: and its k and v
 * @returns scores and weights [V, KV heads, G, 1 + slots], the new token first, and values [V, KV heads, G, head size]
 */
function attendSegments(
  g: GraphBuilder,
  { architecture, layer, cacheType }: LayerAttention,
  queries: Value,
  present: Value,
): { masked: Value; weights: Value; values: Value } {
  const { numHeads, numKvHeads: kvHeads, headSize } = architecture;
  const cache = cacheInputs(layer);
  const mask = windowInputs(architecture.layers[layer]?.slidingWindow).segmentMask;
  const { segmentPages, ownAndPast } = ATTENTION_INPUTS;

  // q [V, KH, G, HS], k and v [V, KH, 1, HS].
  const q = reshape(g, queries, [-1, kvHeads, numHeads / kvHeads, headSize], 'own_q');
  const own = reshape(g, present, [-1, 2 * kvHeads, 1, headSize], 'own_k_v');
  const [k, v] = g.nodes('Split', [own, g.int64([kvHeads, kvHeads])], 2, { axis: 1, name: 'own_k_and_v' }) as [
    Value,
    Value,
  ];
  /** The slots of the segments' pages, [V, KH, n * page size, HS]. */
  const past = (pool: Value, name: string) => {
    const pages = g.node('Gather', [pool, segmentPages], { axis: 0, name: `${name}_pages` });
    return reshape(g, asFloat32(g, pages, cacheType), [0, kvHeads, -1, headSize], `${name}_slots`);
  };
  // Products of single rows are sums of products: a matrix product costs more for each than they take.
  const ownProducts = g.node('Mul', [q, k], { name: 'own_products' });
  const ownDot = g.node('ReduceSum', [ownProducts, g.int64([-1])], { keepdims: 1, name: 'own_dot' });
  const ownScore = g.node('Mul', [ownDot, g.float32Scalar(architecture.attentionScale)], { name: 'own_score' });
  const pastScores = g.node('FusedMatMul', [q, past(cache.key, 'key')], {
    domain: MICROSOFT,
    name: 'past_scores',
    transB: 1,
    alpha: new Float(architecture.attentionScale),
  });

  // The new token comes first, so that the padding behind the slots leaves every sum as it is.
  const scores = g.node('Concat', [ownScore, pastScores], { axis: 3, name: 'scores' });
  const masked = g.node('Add', [scores, mask], { name: 'masked' });
  const weights = g.node('Softmax', [masked], { axis: -1, name: 'weights' });
  const [ownWeight, pastWeights] = g.nodes('Split', [weights, ownAndPast], 2, {
    axis: 3,
    name: 'own_and_past_weights',
  }) as [Value, Value];
  const values = g.node(
    'Add',
    [
      g.node('MatMul', [pastWeights, past(cache.value, 'value')], { name: 'past_values' }),
      g.node('Mul', [ownWeight, v], { name: 'own_value' }),
    ],
    { name: 'segment_values' },
  );
  return { masked, weights, values };
}

/** Appends the rows of all tiles to `decoded`. */
function prefillAttention(
  g: GraphBuilder,
  { architecture, layer, rows, cacheType }: LayerAttention,
  decoded: Value,
): Value {
  const { numHeads, numKvHeads: kvHeads, headSize } = architecture;
  const window = architecture.layers[layer]?.slidingWindow;
  const inputs = windowInputs(window);
  const cache = cacheInputs(layer);
  const zero = g.int64([0]);
  const one = g.int64([1]);
  const two = g.int64([2]);

  // Earlier rows of a chunk are seen as they will be seen in the pool: then a result does not depend on how a prompt was
  // cut into chunks, nor on what of it was cached.
  const kvWidth = kvHeads * headSize;
  const stored =
    cacheType === 'float32'
      ? rows.present
      : g.node('Cast', [rows.present], { to: dataTypeCode(cacheType), name: 'stored' });
  const [k, v] = g.nodes('Split', [asFloat32(g, stored, cacheType), g.int64([kvWidth, kvWidth])], 2, {
    axis: 2,
    name: 'prefill_k_v',
  }) as [Value, Value];

  /** Rows [1, T, KH * HS] to [1, KH, T, HS]. */
  const heads = (x: Value, name: string) =>
    g.node('Transpose', [g.node('Reshape', [x, g.int64([1, -1, kvHeads, headSize])])], { perm: [0, 2, 1, 3], name });
  const keyHeads = heads(k, 'prefill_k');
  const valueHeads = heads(v, 'prefill_v');

  const body = g.subgraph(`tile.${layer}`, (b) => {
    const iteration = b.input(`iteration.${layer}`, 'int64', []);
    const condition = b.input(`condition.${layer}`, 'bool', []);
    const done = b.input(`done.${layer}`, 'float32', [1, 'rows', numHeads * headSize]);

    const tile = b.node('Gather', [inputs.tiles, iteration], { axis: 0, name: 'tile' });
    const [begin, end, chunk, past, pagesBegin, pagesEnd, skip] = b.nodes('Split', [tile], TILE_FIELDS.length, {
      axis: 0,
      name: 'fields',
      num_outputs: TILE_FIELDS.length,
    }) as [Value, Value, Value, Value, Value, Value, Value];
    const pages = b.node('Slice', [inputs.tilePages, pagesBegin, pagesEnd, zero], { name: 'pages' });
    const pageRows = b.node(
      'Add',
      [
        pages,
        b.constant(
          'int32',
          [kvHeads, 1],
          Int32Array.from({ length: kvHeads }, (_, h) => h),
        ),
      ],
      {
        name: 'page_rows',
      },
    );
    const pastEnd = b.node('Add', [skip, past], { name: 'past_end' });

    /** Past pages and earlier rows of the chunk, [1, KH, past + begin - chunk, HS]. */
    const before = (pool: Value, ownHeads: Value, name: string) => {
      const gathered = b.node('Gather', [pool, pageRows], { axis: 0, name: `${name}_pages` });
      const flat = b.node('Reshape', [asFloat32(b, gathered, cacheType), b.int64([1, kvHeads, -1, headSize])], {
        name: `${name}_flat`,
      });
      const seen = b.node('Slice', [flat, skip, pastEnd, two], { name: `${name}_past` });
      const own = b.node('Slice', [ownHeads, chunk, begin, two], { name: `${name}_own` });
      return b.node('Concat', [seen, own], { axis: 2, name: `${name}_before` });
    };
    const keyBefore = before(cache.key, keyHeads, 'key');
    const valueBefore = before(cache.value, valueHeads, 'value');

    const slice = (x: Value, name: string) => b.node('Slice', [x, begin, end, one], { name });
    // Length of everything the last row of the tile sees; the operator wants it less one as well.
    const total = b.node('Add', [past, b.node('Sub', [end, chunk])], { name: 'total' });
    const total32 = b.node('Cast', [total], { to: dataTypeCode('int32'), name: 'total_i32' });
    const [attended] = b.nodes(
      'GroupQueryAttention',
      [
        slice(rows.q, 'tile_q'),
        slice(k, 'tile_k'),
        slice(v, 'tile_v'),
        keyBefore,
        valueBefore,
        b.node('Sub', [total32, b.constant('int32', [1], Int32Array.of(1))], { name: 'last' }),
        b.node('Squeeze', [total32], { name: 'total_scalar' }),
      ],
      3,
      {
        domain: MICROSOFT,
        name: 'gqa',
        num_heads: numHeads,
        kv_num_heads: kvHeads,
        scale: new Float(architecture.attentionScale),
        local_window_size: window,
      },
    );
    const next = b.node('Identity', [condition], { name: 'continue' });
    const extended = b.node('Concat', [done, attended as Value], { axis: 1, name: 'extended' });
    b.output(next, 'bool', []);
    b.output(extended, 'float32', [1, 'more rows', numHeads * headSize]);
  });
  const always = g.constant('bool', [], Uint8Array.of(1));
  return g.node('Loop', [ATTENTION_INPUTS.tileCount, always, decoded], { body, name: 'prefilled' });
}
