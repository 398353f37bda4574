/**
 * Attention of the CPU backend over a paged pool that is only ever read: the step's own keys and values take part
 * straight from the graph and leave it as one output that the runner writes into the pool.
 *
 * Decode rows ("page-batched"): every page of the pool is one row of a batched product with the query of the sequence
 * that owns it, so keys and values are read where they lie. The partial results of a sequence's pages are merged by their
 * log-sum-exp, in logical order through a table, so that a sum does not depend on where its pages lie.
 *
 * Prefill rows: a Loop over tiles of a chunk. Each gathers the pages of its past, adds the chunk's rows before it and runs
 * one fused GroupQueryAttention, so that nothing beyond the causal edge of a tile is computed or padded.
 */
import type { Architecture } from '../../architecture.js';
import { Float, type GraphBuilder, type Value } from '../../graph/builder.js';
import { dataTypeCode } from '../../graph/data-type.js';

const MICROSOFT = 'com.microsoft';

/** Names of the graph inputs that steer attention; `step-inputs.ts` fills them. D decodes, P pages, M merged parts. */
export const ATTENTION_INPUTS = {
  /** bool [] each: whether the step has rows of this kind. */
  hasDecodes: 'has_decodes',
  hasPrefills: 'has_prefills',
  /** i32 [P] decode row whose query a page is multiplied with. */
  pageRows: 'page_rows',
  /** i32 [P] pool page of each entry; used when `direct` is false. */
  pageIds: 'page_ids',
  /** bool []: entry p is pool page p, so that the pool is read in place. */
  direct: 'pages_direct',
  /**
   * i32 [D, heads, 1, M] and [D, heads, M]: where the parts of a row's head lie, in logical order: its pages, itself, and
   * a masked page as padding. Log-sum-exps are numbered page * heads + head and then, for the rows, P * heads + row *
   * heads + head; values the same, but P * heads + row * KV heads + KV head for the rows.
   */
  lseTable: 'lse_table',
  valueTable: 'value_table',
  /** i64 [] number of tiles. */
  tileCount: 'tile_count',
} as const;

/** Inputs that depend on a layer's window: one set for each distinct window of the model. */
export function windowInputs(window: number | undefined) {
  const suffix = window === undefined ? '' : `_window_${window}`;
  return {
    /** f32 [P, 1, 1, page size] 0 where a slot may be seen, else very negative. */
    pageMask: `page_mask${suffix}`,
    /** i64 [N, 7] what a tile computes and sees: `TILE_FIELDS`. */
    tiles: `tiles${suffix}`,
    /** i32 [any] pool pages of the tiles' pasts, one tile after another. */
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
  g.input(I.pageRows, 'int32', ['P']);
  g.input(I.pageIds, 'int32', ['P']);
  g.input(I.direct, 'bool', []);
  g.input(I.lseTable, 'int32', ['D', heads, 1, 'M']);
  g.input(I.valueTable, 'int32', ['D', heads, 'M']);
  g.input(I.tileCount, 'int64', []);
  for (const window of distinctWindows(architecture)) {
    const W = windowInputs(window);
    g.input(W.pageMask, 'float32', ['P', 1, 1, blockSize]);
    g.input(W.tiles, 'int64', ['N', TILE_FIELDS.length]);
    g.input(W.tilePages, 'int32', ['Q']);
  }
  architecture.layers.forEach((_, n) => {
    for (const name of Object.values(cacheInputs(n))) {
      g.input(name, cacheType, ['pages', architecture.numKvHeads, blockSize, architecture.headSize]);
    }
  });
}

export function distinctWindows(architecture: Architecture): (number | undefined)[] {
  return [...new Set(architecture.layers.map((layer) => layer.slidingWindow))];
}

/** [pages, KV heads, page size, head size] each. */
export function cacheInputs(layer: number): { key: Value; value: Value } {
  return { key: `past_key_values.${layer}.key`, value: `past_key_values.${layer}.value` };
}

/** The step's rows of one layer, rotated; decodes come first. */
export interface Rows {
  /** [1, T, heads * head size] */
  readonly q: Value;
  /** [1, T, KV heads * head size] each */
  readonly k: Value;
  readonly v: Value;
  /** [1, T, 2 * KV heads * head size]: each row's k and v, as they go to the pool. */
  readonly present: Value;
}

/**
 * Adds attention for one layer. Returns [1, T, heads * head size].
 */
export function pagedAttention(
  g: GraphBuilder,
  architecture: Architecture,
  layer: number,
  rows: Rows,
  cacheType: CacheType,
): Value {
  return g.scope(`layers.${layer}.attention`, () => {
    const width = architecture.numHeads * architecture.headSize;
    const none = g.constant('float32', [1, 0, width], new Float32Array(0));
    // Branches, because a step without rows of a kind should not pay for it, nor rely on reductions over nothing.
    const branch = (label: string, build: (b: GraphBuilder) => Value) =>
      g.subgraph(label, (b) => b.output(build(b), 'float32', [1, 'rows', width]));
    const decodes = (b: GraphBuilder) => decodeAttention(b, architecture, layer, rows, cacheType);
    // Steps of decodes alone are the most frequent by far: they take one branch and nothing else.
    return g.node('If', [ATTENTION_INPUTS.hasPrefills], {
      name: 'rows',
      then_branch: branch('prefills', (b) => {
        const decoded = b.node('If', [ATTENTION_INPUTS.hasDecodes], {
          name: 'decodes_beside',
          then_branch: branch('some_decodes', decodes),
          else_branch: branch('no_decodes', (inner) => inner.node('Identity', [none], { name: 'no_decoded' })),
        });
        return prefillAttention(b, architecture, layer, rows, cacheType, decoded);
      }),
      else_branch: branch('only_decodes', decodes),
    });
  });
}

function asFloat32(g: GraphBuilder, pages: Value, cacheType: CacheType): Value {
  return cacheType === 'float32' ? pages : g.node('Cast', [pages], { to: dataTypeCode('float32'), name: 'pages_f32' });
}

/** One new token per sequence. Group size G = heads / KV heads; queries of a group share a KV head. */
function decodeAttention(
  g: GraphBuilder,
  architecture: Architecture,
  layer: number,
  rows: Rows,
  cacheType: CacheType,
): Value {
  const { numHeads, numKvHeads: kvHeads, headSize } = architecture;
  const group = numHeads / kvHeads;
  const scale = new Float(architecture.attentionScale);
  const cache = cacheInputs(layer);
  const mask = windowInputs(architecture.layers[layer]?.slidingWindow).pageMask;
  const flat = g.int64([-1]);
  const last = g.int64([-1]);

  const q = g.node('Reshape', [rows.q, g.int64([-1, kvHeads, group, headSize])], { name: 'decode_q' });
  const k = g.node('Reshape', [rows.k, g.int64([-1, kvHeads, 1, headSize])], { name: 'decode_k' });

  // Partial results of every page: lse [P, KH, G, 1], weighted values [P, KH, G, HS].
  const pageQueries = g.node('Gather', [q, ATTENTION_INPUTS.pageRows], { axis: 0, name: 'page_queries' });
  const partials = (label: string, source: (b: GraphBuilder, pool: Value) => Value) =>
    g.subgraph(label, (b) => {
      const scores = b.node('FusedMatMul', [pageQueries, source(b, cache.key)], {
        domain: MICROSOFT,
        name: 'page_scores',
        transB: 1,
        alpha: scale,
      });
      const masked = b.node('Add', [scores, mask], { name: 'masked' });
      const weights = b.node('Softmax', [masked], { axis: -1, name: 'page_softmax' });
      // The largest weight is exp(max - lse), which gives the log-sum-exp without a pass of exponentials.
      const max = b.node('ReduceMax', [masked, last], { keepdims: 1, name: 'page_max' });
      const largest = b.node('ReduceMax', [weights, last], { keepdims: 1, name: 'page_largest' });
      const lse = b.node('Sub', [max, b.node('Log', [largest], { name: 'page_log' })], { name: 'page_lse' });
      const values = b.node('MatMul', [weights, source(b, cache.value)], { name: 'page_values' });
      b.output(lse, 'float32', ['P', kvHeads, group, 1]);
      b.output(values, 'float32', ['P', kvHeads, group, headSize]);
    });
  const [pageLse, pageValues] = g.nodes('If', [ATTENTION_INPUTS.direct], 2, {
    name: 'pages',
    then_branch: partials('direct', (b, pool) => asFloat32(b, pool, cacheType)),
    else_branch: partials('gathered', (b, pool) =>
      asFloat32(b, b.node('Gather', [pool, ATTENTION_INPUTS.pageIds], { axis: 0, name: 'gather_pages' }), cacheType),
    ),
  }) as [Value, Value];

  // The new token attends to itself: a page of one slot, whose log-sum-exp is its score and whose value is its own.
  const selfScores = g.node('FusedMatMul', [q, k], { domain: MICROSOFT, name: 'self_scores', transB: 1, alpha: scale });

  // Merge: of each row and head, a softmax over the log-sum-exps of its pages and itself weighs their values.
  const flatten = (x: Value, shape: Value, name: string) => g.node('Reshape', [x, shape], { name });
  const vectors = g.int64([-1, headSize]);
  const lse = g.node('Concat', [flatten(pageLse, flat, 'page_lse_flat'), flatten(selfScores, flat, 'self_lse_flat')], {
    axis: 0,
    name: 'lse',
  });
  const values = g.node(
    'Concat',
    [flatten(pageValues, vectors, 'page_vectors'), flatten(rows.v, vectors, 'self_vectors')],
    { axis: 0, name: 'vectors' },
  );
  const weights = g.node(
    'Softmax',
    [g.node('Gather', [lse, ATTENTION_INPUTS.lseTable], { axis: 0, name: 'merge_lse' })],
    {
      axis: -1,
      name: 'merge_softmax',
    },
  );
  const parts = g.node('Gather', [values, ATTENTION_INPUTS.valueTable], { axis: 0, name: 'merge_values' });
  const merged = g.node('MatMul', [weights, parts], { name: 'merged' });
  return g.node('Reshape', [merged, g.int64([1, -1, numHeads * headSize])], { name: 'decoded' });
}

/** Appends the rows of all tiles to `decoded`. */
function prefillAttention(
  g: GraphBuilder,
  architecture: Architecture,
  layer: number,
  rows: Rows,
  cacheType: CacheType,
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
    const pastEnd = b.node('Add', [skip, past], { name: 'past_end' });

    /** Past pages and earlier rows of the chunk, [1, KH, past + begin - chunk, HS]. */
    const before = (pool: Value, ownHeads: Value, name: string) => {
      const gathered = b.node('Gather', [pool, pages], { axis: 0, name: `${name}_pages` });
      const byHead = b.node('Transpose', [asFloat32(b, gathered, cacheType)], {
        perm: [1, 0, 2, 3],
        name: `${name}_by_head`,
      });
      const flat = b.node('Reshape', [byHead, b.int64([1, kvHeads, -1, headSize])], {
        name: `${name}_flat`,
        allowzero: 0,
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
