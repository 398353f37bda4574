/**
 * Attention of prompt rows: a Loop over tiles of a chunk. Each gathers the pages of its past, adds the chunk's rows before
 * it and runs one fused GroupQueryAttention, so that nothing beyond the causal edge of a tile is computed or padded.
 */
import { Float, type GraphBuilder, type Value } from '../../graph/builder.js';
import { dataTypeCode } from '../../graph/data-type.js';
import type { LayerAttention } from './attention.js';
import { ATTENTION_INPUTS, TILE_FIELDS, windowInputs } from './attention-inputs.js';

const MICROSOFT = 'com.microsoft';

/** Appends the rows of all tiles to `decoded`. */
export function prefillAttention(
  g: GraphBuilder,
  { architecture, layer, rows, pages: format }: LayerAttention,
  decoded: Value,
): Value {
  const { numHeads, numKvHeads: kvHeads, headSize } = architecture;
  const window = architecture.layers[layer]?.slidingWindow;
  const inputs = windowInputs(window);
  const zero = g.int64([0]);
  const one = g.int64([1]);
  const two = g.int64([2]);

  // Earlier rows of a chunk are seen as they will be seen in the pool: then a result does not depend on how a prompt was
  // cut into chunks, nor on what of it was cached.
  const k = format.asStored(g, rows.k);
  const v = format.asStored(g, rows.v);

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

    const stored = format.slots(b, layer, pages);
    /** What comes before the tile, of its past and of its chunk: [1, KH, past + begin - chunk, HS]. */
    const before = (slots: Value, ownHeads: Value, name: string) => {
      const seen = b.node('Slice', [slots, skip, pastEnd, two], { name: `${name}_past` });
      const own = b.node('Slice', [ownHeads, chunk, begin, two], { name: `${name}_own` });
      return b.node('Concat', [seen, own], { axis: 2, name: `${name}_before` });
    };
    const keyBefore = before(stored.key, keyHeads, 'key');
    const valueBefore = before(stored.value, valueHeads, 'value');

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
