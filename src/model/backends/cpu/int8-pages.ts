/**
 * Pages of 8 bits with a scale for each head of each token, multiplied in integers, by which nothing is converted. Keys lie
 * transposed in their page, as integer products take them. Heads are rotated first (`rotation.ts` does it to values), since
 * rope leaves a few elements of keys much larger than the rest.
 */
import type { Architecture } from '../../architecture.js';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import { dataTypeCode } from '../../graph/data-type.js';
import { ATTENTION_INPUTS } from './attention-inputs.js';
import { applyHadamardToRows, powerOfTwoFactor } from './hadamard.js';
import { cacheInputs, STORED } from './page-names.js';
import type { PageFormat, Segments } from './pages.js';

const MICROSOFT = 'com.microsoft';

export class Int8Pages implements PageFormat {
  /** f32 [1, n] */
  #ones = '';

  constructor(
    private readonly architecture: Architecture,
    private readonly blockSize: number,
  ) {}

  declare(g: GraphBuilder): void {
    const { layers, numKvHeads, headSize } = this.architecture;
    layers.forEach((_, layer) => {
      const { key, value, scale } = cacheInputs(layer);
      g.input(key, 'int8', ['pages', numKvHeads, headSize, this.blockSize]);
      g.input(value, 'int8', ['pages', numKvHeads, this.blockSize, headSize]);
      g.input(scale, 'float32', ['pages', 2 * numKvHeads, 1, this.blockSize]);
    });
    const pages = g.node('Shape', [ATTENTION_INPUTS.segmentPages], { start: 1, name: 'pages_each' });
    this.#ones = g.node('Expand', [g.constant('float32', [1, 1], Float32Array.of(1)), pages], { name: 'page_ones' });
  }

  prepareHeads(g: GraphBuilder, rows: Value, width: number): Value {
    const { headSize } = this.architecture;
    const block = powerOfTwoFactor(headSize);
    if (block === 1) return rows;
    const hadamard = new Float32Array(block * block);
    for (let i = 0; i < block; i++) hadamard[i * block + i] = 1;
    applyHadamardToRows(hadamard, block, block);
    const blocks = g.node('Reshape', [rows, g.int64([1, -1, block])], { name: 'head_blocks' });
    const matrix = g.constant('float32', [block, block], hadamard);
    const rotated = g.node('MatMul', [blocks, matrix], { name: 'rotated_heads' });
    return g.node('Reshape', [rotated, g.int64([1, -1, width])], { name: 'rotated_rows' });
  }

  segments(g: GraphBuilder, layer: number): Segments {
    const { scale } = cacheInputs(layer);
    // [V, n, KH, 1, page size]
    const scales = this.#scales(g, scale, ATTENTION_INPUTS.segmentPages);
    return {
      scores: (queries) => this.#scores(g, layer, queries, scales.key),
      values: (weights) => this.#values(g, layer, weights, scales.value),
    };
  }

  slots(g: GraphBuilder, layer: number, pages: Value): { key: Value; value: Value } {
    const { numKvHeads: kvHeads, headSize } = this.architecture;
    const { blockSize } = this;
    const names = cacheInputs(layer);
    const scales = this.#scales(g, names.scale, pages);
    const read = (pool: Value, scale: Value, perm: readonly number[], name: string) => {
      const integers = g.node('Gather', [pool, pages], { axis: 0, name: `${name}_pages` });
      const scaled = g.node('Mul', [this.#asFloat32(g, integers), scale], { name: `${name}_scaled` });
      const ordered = g.node('Transpose', [scaled], { perm, name: `${name}_ordered` });
      return g.node('Reshape', [ordered, g.int64([1, kvHeads, -1, headSize])], { name: `${name}_flat` });
    };
    const column = g.node('Reshape', [scales.value, g.int64([-1, kvHeads, blockSize, 1])], { name: 'value_scales' });
    return {
      key: read(names.key, scales.key, [1, 0, 3, 2], 'key'),
      value: read(names.value, column, [1, 0, 2, 3], 'value'),
    };
  }

  asStored(g: GraphBuilder, rows: Value): Value {
    const { integers, scales } = this.#quantize(g, rows, 1);
    const read = g.node('Mul', [this.#asFloat32(g, integers), scales], { name: 'read_back' });
    return g.node('Reshape', [read, g.int64([1, -1, this.#width])], { name: 'read_back_rows' });
  }

  store(g: GraphBuilder, rows: Value): void {
    const { layers, numKvHeads } = this.architecture;
    const count = 2 * layers.length;
    const { integers, scales } = this.#quantize(g, rows, count);
    g.nodes('Reshape', [integers, g.int64([count, -1, this.#width])], [STORED.rows], { name: 'stored_rows' });
    g.nodes('Reshape', [scales, g.int64([count, -1, numKvHeads])], [STORED.scales], { name: 'stored_scales' });
    g.output(STORED.rows, 'int8', [count, 'T', this.#width]);
    g.output(STORED.scales, 'float32', [count, 'T', numKvHeads]);
  }

  #scores(g: GraphBuilder, layer: number, queries: Value, scales: Value): Value {
    const { numKvHeads: kvHeads, numHeads, attentionScale } = this.architecture;
    const range = this.#range(g, queries, 'query');
    const unit = g.node('Div', [queries, range], { name: 'query_unit' });
    const zeroPoint = g.constant('uint8', [], Uint8Array.of(128));
    const rows = g.node('QuantizeLinear', [unit, g.float32Scalar(1 / 127), zeroPoint], { name: 'query_rows' });
    const byPage = g.node('Unsqueeze', [rows, g.int64([1])], { name: 'query_by_page' });
    const keys = this.#segmentPages(g, cacheInputs(layer).key, 'key');
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
    const pages = this.#segmentPages(g, cacheInputs(layer).value, 'value');
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

  /** Rows [count, T, KH * HS] as integers [count, T, KH, HS] and what they are to be multiplied by. */
  #quantize(g: GraphBuilder, rows: Value, count: number): { integers: Value; scales: Value } {
    const { numKvHeads, headSize } = this.architecture;
    const shape = g.int64([count, -1, numKvHeads, headSize]);
    const heads = g.node('Reshape', [rows, shape], { name: 'present_heads' });
    const range = this.#range(g, heads, 'present');
    const step = g.float32Scalar(1 / 127);
    const unit = g.node('Div', [heads, range], { name: 'present_unit' });
    const zeroPoint = g.constant('int8', [], Int8Array.of(0));
    return {
      integers: g.node('QuantizeLinear', [unit, step, zeroPoint], { name: 'present_integers' }),
      scales: g.node('Mul', [range, step], { name: 'present_scales_of_heads' }),
    };
  }

  /**
   * The largest magnitude of each head. Of a head of zeros it is zero: whatever its integers are then, they are multiplied
   * by it in the end.
   */
  #range(g: GraphBuilder, heads: Value, name: string): Value {
    const magnitudes = g.node('Abs', [heads], { name: `${name}_abs` });
    return g.node('ReduceMax', [magnitudes, g.int64([-1])], { keepdims: 1, name: `${name}_range` });
  }

  /** Pages of the segments, [V, n, KH, ...]. */
  #segmentPages(g: GraphBuilder, pool: Value, name: string): Value {
    return g.node('Gather', [pool, ATTENTION_INPUTS.segmentPages], { axis: 0, name: `${name}_pages` });
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

  #asFloat32(g: GraphBuilder, integers: Value): Value {
    return g.node('Cast', [integers], { to: dataTypeCode('float32'), name: 'integers_f32' });
  }
}
