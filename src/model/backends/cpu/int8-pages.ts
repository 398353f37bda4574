/**
 * Pages of 8 bits with a scale for each head of each token, multiplied in integers, so that nothing is converted. Keys lie
 * transposed in their page, as integer products take them. A head's numbers are alike enough for one scale: keys are
 * balanced (`balance.ts`) and values rotated (`rotation.ts`).
 */
import type { Architecture } from '../../architecture.js';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import { dataTypeCode } from '../../graph/data-type.js';
import { ATTENTION_INPUTS } from './attention-inputs.js';
import { cacheInputs, STORED } from './page-names.js';
import { declarePages, pagesOfLayer, pagesOfLayers, splitLayers } from './page-tables.js';
import type { PageFormat, Segments } from './pages.js';

const MICROSOFT = 'com.microsoft';

export class Int8Pages implements PageFormat {
  /** f32 [1, n] */
  #ones = '';
  /** Of each layer, rows i32 [V, n] of its inputs that hold the segments' pages. */
  #tables: readonly Value[] = [];

  constructor(
    private readonly architecture: Architecture,
    private readonly blockSize: number,
  ) {}

  declare(g: GraphBuilder): void {
    const { layers, numKvHeads, headSize } = this.architecture;
    declarePages(g, this.architecture, ({ key, value, scale }) => {
      g.input(key, 'int8', [`${key} pages`, numKvHeads, headSize, this.blockSize]);
      g.input(value, 'int8', [`${key} pages`, numKvHeads, this.blockSize, headSize]);
      g.input(scale, 'float32', [`${key} pages`, 2 * numKvHeads, 1, this.blockSize]);
    });
    this.#tables = splitLayers(g, layers.length, pagesOfLayers(g, ATTENTION_INPUTS.segmentPages, 2));
    const pages = g.node('Shape', [ATTENTION_INPUTS.segmentPages], { start: 1, name: 'pages_each' });
    this.#ones = g.node('Expand', [g.constant('float32', [1, 1], Float32Array.of(1)), pages], { name: 'page_ones' });
  }

  segments(g: GraphBuilder, layer: number): Segments {
    const { scale } = cacheInputs(layer);
    // [V, n, KH, 1, page size]
    const scales = this.#scales(g, scale, this.#tables[layer] as Value);
    return {
      scores: (queries) => this.#scores(g, layer, queries, scales.key),
      values: (weights) => this.#values(g, layer, weights, scales.value),
    };
  }

  slots(g: GraphBuilder, layer: number, pages: Value): { key: Value; value: Value } {
    const { numKvHeads: kvHeads, headSize } = this.architecture;
    const { blockSize } = this;
    const names = cacheInputs(layer);
    const rows = pagesOfLayer(g, layer, pages);
    const scales = this.#scales(g, names.scale, rows);
    /** From integers [P, KH, page size, HS], and scales of as many rows: all of a head's slots behind each other. */
    const read = (integers: Value, scale: Value, name: string) => {
      const byHead = (x: Value, what: string) =>
        g.node('Transpose', [x], { perm: [1, 0, 2, 3], name: `${name}_${what}_by_head` });
      const heads = g.node('Reshape', [byHead(integers, 'integers'), g.int64([-1, headSize])], {
        name: `${name}_rows`,
      });
      const steps = g.node('Reshape', [byHead(scale, 'scales'), g.int64([-1])], { name: `${name}_steps` });
      const shape = g.int64([1, kvHeads, -1, headSize]);
      return g.node('Reshape', [this.#multiplied(g, heads, steps), shape], { name: `${name}_flat` });
    };
    const keys = g.node('Gather', [names.key, rows], { axis: 0, name: 'key_pages' });
    // Of matrices one behind the other, as that is what transposes fast.
    const columns = g.node('Reshape', [keys, g.int64([-1, headSize, blockSize])], { name: 'key_columns' });
    const slots = g.node('Transpose', [columns], { perm: [0, 2, 1], name: 'key_slots' });
    const pageKeys = g.node('Reshape', [slots, g.int64([-1, kvHeads, blockSize, headSize])], {
      name: 'key_page_slots',
    });
    const pageValues = g.node('Gather', [names.value, rows], { axis: 0, name: 'value_pages' });
    return { key: read(pageKeys, scales.key, 'key'), value: read(pageValues, scales.value, 'value') };
  }

  asStored(g: GraphBuilder, rows: Value): Value {
    const { integers, steps } = this.#quantize(g, rows);
    const shape = g.int64([1, -1, this.#width]);
    return g.node('Reshape', [this.#multiplied(g, integers, steps), shape], { name: 'read_back_rows' });
  }

  store(g: GraphBuilder, rows: Value): void {
    const { layers, numKvHeads } = this.architecture;
    const count = 2 * layers.length;
    const { integers, steps } = this.#quantize(g, rows);
    g.nodes('Reshape', [integers, g.int64([count, -1, this.#width])], [STORED.rows], { name: 'stored_rows' });
    g.nodes('Reshape', [steps, g.int64([count, -1, numKvHeads])], [STORED.scales], { name: 'stored_scales' });
    g.output(STORED.rows, 'int8', [count, 'T', this.#width]);
    g.output(STORED.scales, 'float32', [count, 'T', numKvHeads]);
  }

  #scores(g: GraphBuilder, layer: number, queries: Value, scales: Value): Value {
    const { numKvHeads: kvHeads, numHeads, attentionScale } = this.architecture;
    const range = this.#range(g, queries, 'query', 1);
    const unit = g.node('Div', [queries, range], { name: 'query_unit' });
    const zeroPoint = g.constant('uint8', [], Uint8Array.of(128));
    const rows = g.node('QuantizeLinear', [unit, g.float32Scalar(1 / 127), zeroPoint], { name: 'query_rows' });
    const byPage = g.node('Unsqueeze', [rows, g.int64([1])], { name: 'query_by_page' });
    const keys = this.#segmentPages(g, layer, 'key');
    // [V, n, KH, G, page size]
    const products = g.node(
      'MatMulIntegerToFloat',
      [byPage, keys, g.float32Scalar(attentionScale / 127), scales, zeroPoint],
      { domain: MICROSOFT, name: 'page_scores' },
    );
    const byHead = g.node('Transpose', [products], { perm: [0, 2, 3, 1, 4], name: 'scores_by_head' });
    const shape = g.int64([0, kvHeads, numHeads / kvHeads, -1]);
    const unscaled = g.node('Reshape', [byHead, shape], { name: 'unscaled_scores' });
    return g.node('Mul', [unscaled, range], { name: 'past_scores' });
  }

  #values(g: GraphBuilder, layer: number, weights: Value, scales: Value): Value {
    const { numKvHeads: kvHeads, numHeads, headSize } = this.architecture;
    const { blockSize } = this;
    const shape = g.int64([0, kvHeads, numHeads / kvHeads, -1, blockSize]);
    const byHead = g.node('Reshape', [weights, shape], { name: 'weights_by_head' });
    const byPage = g.node('Transpose', [byHead], { perm: [0, 3, 1, 2, 4], name: 'weights_by_page' });
    // The weights of each page are quantized by themselves: those of one may be a small part of another's.
    const scaled = g.node('Mul', [byPage, scales], { name: 'scaled_weights' });
    const range = g.node('ReduceMax', [scaled, g.int64([-1])], { keepdims: 1, name: 'weight_range' });
    const unit = g.node('Div', [scaled, range], { name: 'weight_unit' });
    const none = g.constant('uint8', [], Uint8Array.of(0));
    const rows = g.node('QuantizeLinear', [unit, g.float32Scalar(1 / 255), none], { name: 'weight_rows' });
    const pages = this.#segmentPages(g, layer, 'value');
    const products = g.node(
      'MatMulIntegerToFloat',
      [rows, pages, g.float32Scalar(1 / 255), g.constant('float32', [1], Float32Array.of(1))],
      { domain: MICROSOFT, name: 'page_values' },
    );
    const inScale = g.node('Mul', [products, range], { name: 'scaled_page_values' });
    // Summed by a product with ones: ReduceSum rounds otherwise where there is a single segment.
    const byPages = g.int64([0, 0, numHeads * headSize]);
    const terms = g.node('Reshape', [inScale, byPages], { name: 'page_value_rows' });
    const sums = g.node('MatMul', [this.#ones, terms], { name: 'page_value_sums' });
    return g.node('Reshape', [sums, g.int64([-1, kvHeads, numHeads / kvHeads, headSize])], { name: 'past_values' });
  }

  /** Elements of a row's keys, and of its values. */
  get #width(): number {
    return this.architecture.numKvHeads * this.architecture.headSize;
  }

  /** Heads of rows [..., KH * HS] as integers [heads of all rows, HS], and what those of each are to be multiplied by. */
  #quantize(g: GraphBuilder, rows: Value): { integers: Value; steps: Value } {
    const heads = g.node('Reshape', [rows, g.int64([-1, this.architecture.headSize])], { name: 'present_heads' });
    const range = this.#range(g, heads, 'present', 0);
    const steps = g.node('Mul', [range, g.float32Scalar(1 / 127)], { name: 'present_steps' });
    const output_dtype = dataTypeCode('int8');
    const integers = g.node('QuantizeLinear', [heads, steps], { axis: 0, output_dtype, name: 'present_integers' });
    return { integers, steps };
  }

  /** Each row of integers [rows, HS] times its step. */
  #multiplied(g: GraphBuilder, integers: Value, steps: Value): Value {
    return g.node('DequantizeLinear', [integers, steps], { axis: 0, name: 'multiplied' });
  }

  /**
   * The largest magnitude of each head. Of a head of zeros it is zero: whatever its integers are then, they are multiplied
   * by it in the end.
   */
  #range(g: GraphBuilder, heads: Value, name: string, keepdims: 0 | 1): Value {
    const magnitudes = g.node('Abs', [heads], { name: `${name}_abs` });
    return g.node('ReduceMax', [magnitudes, g.int64([-1])], { keepdims, name: `${name}_range` });
  }

  /** Pages of the segments, [V, n, KH, ...]. */
  #segmentPages(g: GraphBuilder, layer: number, name: 'key' | 'value'): Value {
    return g.node('Gather', [cacheInputs(layer)[name], this.#tables[layer] as Value], {
      axis: 0,
      name: `${name}_pages`,
    });
  }

  /** Scales of the keys and of the values of pages [...outer]: [...outer, KH, 1, page size] each. */
  #scales(g: GraphBuilder, pool: Value, pages: Value): { key: Value; value: Value } {
    const { numKvHeads } = this.architecture;
    const scales = g.node('Gather', [pool, pages], { axis: 0, name: 'scale_pages' });
    const [key, value] = g.nodes('Split', [scales, g.int64([numKvHeads, numKvHeads])], 2, {
      axis: -3,
      name: 'key_and_value_scales',
    }) as [Value, Value];
    return { key, value };
  }
}
