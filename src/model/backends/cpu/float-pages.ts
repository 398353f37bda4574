/** Pages of f32 or f16. Products are in f32 either way. */
import type { Architecture } from '../../architecture.js';
import { FLOAT16_MAX } from '../../float16.js';
import { Float, type GraphBuilder, type Value } from '../../graph/builder.js';
import { dataTypeCode } from '../../graph/data-type.js';
import { ATTENTION_INPUTS } from './attention-inputs.js';
import { cacheInputs, STORED } from './page-names.js';
import { declarePages, pagesOfLayer, pagesOfLayers, splitLayers } from './page-tables.js';
import type { PageFormat, Segments } from './pages.js';

export class FloatPages implements PageFormat {
  /** Of each layer, rows i32 [V, KH, n] of its inputs, page * KV heads + KV head, that hold the segments' pages. */
  #tables: readonly Value[] = [];

  constructor(
    private readonly type: 'float32' | 'float16',
    private readonly architecture: Architecture,
    private readonly blockSize: number,
  ) {}

  declare(g: GraphBuilder): void {
    const width = this.blockSize * this.architecture.headSize;
    declarePages(g, this.architecture, ({ key, value }) => {
      for (const name of [key, value]) g.input(name, this.type, [`${key} rows`, width]);
    });
    const pages = g.node('Unsqueeze', [ATTENTION_INPUTS.segmentPages, g.int64([1])], { name: 'segment_pages_by_head' });
    const rows = this.#rowsOf(g, pagesOfLayers(g, pages, 3), 'segment_rows_of_pool');
    this.#tables = splitLayers(g, this.architecture.layers.length, rows);
  }

  segments(g: GraphBuilder, layer: number): Segments {
    const { attentionScale } = this.architecture;
    return {
      scores: (queries) =>
        g.node('FusedMatMul', [queries, this.#segmentSlots(g, layer, 'key')], {
          domain: 'com.microsoft',
          name: 'past_scores',
          transB: 1,
          alpha: new Float(attentionScale),
        }),
      values: (weights) => g.node('MatMul', [weights, this.#segmentSlots(g, layer, 'value')], { name: 'past_values' }),
    };
  }

  slots(g: GraphBuilder, layer: number, pages: Value): { key: Value; value: Value } {
    const { numKvHeads, headSize } = this.architecture;
    const rows = this.#rowsOf(g, pagesOfLayer(g, layer, pages), 'page_rows');
    const read = (pool: Value, name: string) => {
      const gathered = g.node('Gather', [pool, rows], { axis: 0, name: `${name}_pages` });
      const shape = g.int64([1, numKvHeads, -1, headSize]);
      return g.node('Reshape', [this.#asFloat32(g, gathered), shape], { name: `${name}_flat` });
    };
    const { key, value } = cacheInputs(layer);
    return { key: read(key, 'key'), value: read(value, 'value') };
  }

  asStored(g: GraphBuilder, rows: Value): Value {
    if (this.type === 'float32') return rows;
    return this.#asFloat32(g, g.node('Cast', [rows], { to: dataTypeCode(this.type), name: 'stored' }));
  }

  store(g: GraphBuilder, rows: Value): void {
    const { layers, numKvHeads, headSize } = this.architecture;
    // What half precision cannot hold must not become infinite: a later owner of the block multiplies it by zero.
    const bounds = [g.float32Scalar(-FLOAT16_MAX), g.float32Scalar(FLOAT16_MAX)];
    const held = this.type === 'float32' ? rows : g.node('Clip', [rows, ...bounds], { name: 'held_rows' });
    g.nodes('Cast', [held], [STORED.rows], { to: dataTypeCode(this.type), name: 'stored_rows' });
    g.output(STORED.rows, this.type, [2 * layers.length, 'T', numKvHeads * headSize]);
  }

  /** The slots of the segments' pages, [V, KH, n * page size, HS]. */
  #segmentSlots(g: GraphBuilder, layer: number, name: 'key' | 'value'): Value {
    const { numKvHeads, headSize } = this.architecture;
    const pool = cacheInputs(layer)[name];
    const pages = g.node('Gather', [pool, this.#tables[layer] as Value], { axis: 0, name: `${name}_pages` });
    const shape = g.int64([0, numKvHeads, -1, headSize]);
    return g.node('Reshape', [this.#asFloat32(g, pages), shape], { name: `${name}_slots` });
  }

  /** Rows of the pool, [..., KH, P], of pages [..., 1, P]. */
  #rowsOf(g: GraphBuilder, pages: Value, name: string): Value {
    const { numKvHeads } = this.architecture;
    const heads = Int32Array.from({ length: numKvHeads }, (_, head) => head);
    const first = g.node('Mul', [pages, g.constant('int32', [], Int32Array.of(numKvHeads))], { name: `first_${name}` });
    return g.node('Add', [first, g.constant('int32', [numKvHeads, 1], heads)], { name });
  }

  #asFloat32(g: GraphBuilder, pages: Value): Value {
    if (this.type === 'float32') return pages;
    return g.node('Cast', [pages], { to: dataTypeCode('float32'), name: 'pages_f32' });
  }
}
