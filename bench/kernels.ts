/**
 * Ways of saying the same thing to ONNX Runtime's CPU kernels, timed against each other: `node bench/run.mjs kernels`. They
 * are why the CPU lowering is written as it is. Microseconds a layer, the least of some runs, by rows of the step; a chain of
 * as many layers as the bundled model has, so that a node's fixed cost counts as it does in a step.
 */
import { Tensor } from 'onnxruntime-node';
import { Float, type GraphBuilder, type Value } from '../src/model/graph/builder.js';
import { type Feeds, floats, leastOf, leastTime, randomFloats, sessionOf } from './support/graph.js';
import { readNumbers, readOptions } from './support/options.js';
import { formatNumber, formatTable } from './support/statistics.js';

const options = readOptions({
  rows: { type: 'string', default: '1,16,128' },
  /** Sequences of a decode step, and tokens of context of each. */
  batch: { type: 'string', default: '1,4,16,32' },
  context: { type: 'string', default: '160' },
  threads: { type: 'string', default: '2' },
  runs: { type: 'string', default: '15' },
});
const LAYERS = 30;
const threads = Number(options.threads);
const runs = Number(options.runs);
const MICROSOFT = 'com.microsoft';
const EPSILON = { epsilon: new Float(1e-5) };

const last = (g: GraphBuilder): Value => g.int64([-1]);
const ones = (g: GraphBuilder, width: number): Value => g.constant('float32', [width], new Float32Array(width).fill(1));
const zeroPoint = (g: GraphBuilder): Value => g.constant('uint8', [], Uint8Array.of(128));
const cast = (g: GraphBuilder, x: Value): Value => g.node('Cast', [x], { to: 1 });

/** Rows of one width in, rows of the same width out. */
interface Way {
  readonly name: string;
  readonly width: number;
  layer(g: GraphBuilder, x: Value): Value;
}

/** Quantized rows are multiplied by one column, which costs little, as nothing else takes them. */
function consume(g: GraphBuilder, rows: Value, scale: Value, width: number): Value {
  const weights = g.constant('int8', [width, 1], new Int8Array(width).fill(1));
  return g.node(
    'MatMulIntegerToFloat',
    [rows, weights, scale, g.constant('float32', [1], Float32Array.of(1)), zeroPoint(g)],
    {
      domain: MICROSOFT,
    },
  );
}

const WAYS: readonly Way[] = [
  {
    name: 'sum and norm, fused',
    width: 576,
    layer(g, x) {
      const outputs = [1, 2, 3, 4].map((i) => (i === 2 || i === 3 ? '' : `${x}+${i}`));
      const [normed, , , sum] = g.nodes('SkipSimplifiedLayerNormalization', [x, 'rows', ones(g, 576)], outputs, {
        domain: MICROSOFT,
        ...EPSILON,
      });
      return g.node('Mul', [normed!, sum!]);
    },
  },
  {
    name: 'sum and norm, one node each',
    width: 576,
    layer(g, x) {
      const sum = g.node('Add', [x, 'rows']);
      return g.node('Mul', [
        g.node('SimplifiedLayerNormalization', [sum, ones(g, 576)], { axis: -1, ...EPSILON }),
        sum,
      ]);
    },
  },
  {
    name: 'quantize rows: divide, then one scale',
    width: 1536,
    layer(g, x) {
      const range = g.node('ReduceMax', [g.node('Abs', [x]), last(g)], { keepdims: 1 });
      const scale = g.float32Scalar(1 / 127);
      const rows = g.node('QuantizeLinear', [g.node('Div', [x, range]), scale, zeroPoint(g)]);
      return g.node('Add', [x, g.node('Mul', [consume(g, rows, scale, 1536), range])]);
    },
  },
  {
    name: 'quantize rows: a scale each',
    width: 1536,
    layer(g, x) {
      const range = g.node('ReduceMax', [g.node('Abs', [x]), g.int64([0, 2])], { keepdims: 0 });
      const scales = g.node('Mul', [range, g.float32Scalar(1 / 127)]);
      const rows = g.node('QuantizeLinear', [x, scales, 'zero_points'], { axis: 1 });
      const product = consume(g, rows, g.float32Scalar(1), 1536);
      return g.node('Add', [x, g.node('Mul', [product, g.node('Reshape', [scales, g.int64([1, -1, 1])])])]);
    },
  },
  {
    name: 'quantize rows: one fixed scale',
    width: 1536,
    layer(g, x) {
      const scale = g.float32Scalar(3.7 / 127);
      const rows = g.node('QuantizeLinear', [x, scale, zeroPoint(g)]);
      return g.node('Add', [x, consume(g, rows, scale, 1536)]);
    },
  },
  ...[16, 32, 64].map(
    (block): Way => ({
      name: `rotate by blocks of ${block}`,
      width: 1536,
      layer(g, x) {
        const matrix = g.constant('float32', [block, block], randomFloats(block * block));
        const rotated = g.node('MatMul', [g.node('Reshape', [x, g.int64([1, -1, block])]), matrix]);
        return g.node('Reshape', [rotated, g.int64([1, -1, 1536])]);
      },
    }),
  ),
];

async function elementwise(): Promise<void> {
  const counts = readNumbers(options.rows);
  const table = [['rows', ...counts.map(String)]];
  for (const way of WAYS) {
    const session = await sessionOf(threads, (g) => {
      g.input('rows', 'float32', [1, 'T', way.width]);
      g.input('zero_points', 'uint8', ['T']);
      let x: Value = 'rows';
      for (let layer = 0; layer < LAYERS; layer++) x = way.layer(g, x);
      return x;
    });
    const times = [way.name];
    for (const count of counts) {
      const feeds = {
        rows: floats([1, count, way.width]),
        zero_points: new Tensor('uint8', new Uint8Array(count).fill(128), [count]),
      };
      times.push(formatNumber(((await leastTime(session, feeds, runs)) * 1000) / LAYERS));
    }
    table.push(times);
    await session.release();
  }
  console.log(formatTable(table));
}

const HEADS = { kv: 3, group: 3, size: 64 };
const PAGE = 32;
const SCALE = new Float(0.125);

type CacheType = 'float16' | 'float32' | 'int8';

/** Attention of one layer over the cache `key` and `value`, rows of [page * KV heads + KV head, page size * head size]. */
type Attention = (g: GraphBuilder, key: Value, value: Value, type: CacheType) => Value;

/** What products take; a cache of 8 bits goes into its kernel as it is. */
const toFloat32 = (g: GraphBuilder, x: Value, type: CacheType): Value => (type === 'float16' ? cast(g, x) : x);

/** Scores of `queries` [..., G, HS] with keys [..., S, HS], their softmax, and the values weighed with it. */
function attend(g: GraphBuilder, queries: Value, keys: Value, values: Value): Value {
  const scores = g.node('FusedMatMul', [queries, keys], { domain: MICROSOFT, transB: 1, alpha: SCALE });
  return g.node('MatMul', [g.node('Softmax', [scores], { axis: -1 }), values]);
}

const gathered = (g: GraphBuilder, pool: Value, type: CacheType): Value =>
  toFloat32(
    g,
    g.node('Reshape', [g.node('Gather', [pool, 'table'], { axis: 0 }), g.int64([0, HEADS.kv, -1, HEADS.size])]),
    type,
  );

const ATTENTIONS: Record<string, Attention> = {
  // Without the merge of a sequence's pages, which comes on top.
  'pages where they lie, one product each': (g, key, value, type) => {
    const pages = (pool: Value) =>
      toFloat32(g, g.node('Reshape', [pool, g.int64([-1, HEADS.kv, PAGE, HEADS.size])]), type);
    const queries = g.node('Gather', ['queries', 'page_rows'], { axis: 0 });
    return attend(g, queries, pages(key), pages(value));
  },
  'pages gathered into sequences': (g, key, value, type) =>
    attend(g, 'queries', gathered(g, key, type), gathered(g, value, type)),
  'GroupQueryAttention on gathered sequences': (g, key, value, type) => {
    const past = (pool: Value) => gathered(g, pool, type);
    const scale = g.constant('float32', [1], Float32Array.of(0.02));
    const scales = type === 'int8' ? ['', '', '', '', '', scale, scale] : [];
    const [attended] = g.nodes(
      'GroupQueryAttention',
      ['query_rows', 'own_rows', 'own_rows', past(key), past(value), 'lengths', 'total', ...scales],
      3,
      {
        domain: MICROSOFT,
        num_heads: HEADS.kv * HEADS.group,
        kv_num_heads: HEADS.kv,
        scale: SCALE,
        ...(type === 'int8' && { k_quant_type: 'PER_TENSOR', v_quant_type: 'PER_TENSOR', kv_cache_bit_width: 8 }),
      },
    );
    return attended as Value;
  },
};

/** Products take no integers. */
const possible = (name: string, type: CacheType): boolean => type !== 'int8' || name.startsWith('GroupQueryAttention');

async function attention(batch: number, context: number): Promise<string[][]> {
  const { kv, group, size } = HEADS;
  const pagesEach = Math.ceil(context / PAGE);
  const pages = batch * pagesEach;
  // Pages of the sequences alternate, as they do in a busy pool.
  const table = Int32Array.from({ length: batch * kv * pagesEach }, (_, i) => {
    const [sequence, head, page] = [Math.floor(i / (kv * pagesEach)), Math.floor(i / pagesEach) % kv, i % pagesEach];
    return (page * batch + sequence) * kv + head;
  });
  const rows: string[][] = [];
  for (const type of ['float16', 'float32', 'int8'] as const) {
    for (const [name, build] of Object.entries(ATTENTIONS)) {
      if (!possible(name, type)) continue;
      const feeds: Feeds = {
        queries: floats([batch, kv, group, size]),
        query_rows: floats([batch, 1, kv * group * size]),
        own_rows: floats([batch, 1, kv * size]),
        table: new Tensor('int32', table, [batch, kv, pagesEach]),
        page_rows: new Tensor(
          'int32',
          Int32Array.from({ length: pages }, (_, i) => i % batch),
          [pages],
        ),
        lengths: new Tensor('int32', new Int32Array(batch).fill(pagesEach * PAGE), [batch]),
        total: new Tensor('int32', Int32Array.of(pagesEach * PAGE + 1), []),
      };
      const pool = (): Tensor => {
        const shape = [pages * kv, PAGE * size];
        if (type === 'float32') return floats(shape);
        if (type === 'int8') {
          return new Tensor(
            type,
            new Int8Array(pages * kv * PAGE * size).map(() => Math.random() * 255 - 127),
            shape,
          );
        }
        // Numbers from 0.125 to 0.25.
        return new Tensor(
          type,
          new Uint16Array(pages * kv * PAGE * size).map(() => 0x3000 + Math.random() * 1024),
          shape,
        );
      };
      const session = await sessionOf(threads, (g) => {
        for (const [input, tensor] of Object.entries(feeds)) {
          g.input(
            input,
            tensor.type as 'float32' | 'int32',
            tensor.dims.map((_, i) => `${input}.${i}`),
          );
        }
        const results: Value[] = [];
        for (let layer = 0; layer < LAYERS; layer++) {
          for (const part of ['key', 'value']) {
            g.input(`${part}.${layer}`, type, ['rows', PAGE * size]);
            feeds[`${part}.${layer}`] = pool();
          }
          const attended = build(g, `key.${layer}`, `value.${layer}`, type);
          results.push(
            g.node('ReduceMax', [g.node('Reshape', [attended, g.int64([1, 1, -1])]), last(g)], { keepdims: 1 }),
          );
        }
        return g.node('Concat', results, { axis: 2 });
      });
      const time = ((await leastTime(session, feeds, runs)) * 1000) / LAYERS;
      rows.push([`${batch} at ${context}`, `${name}, ${type}`, formatNumber(time)]);
      await session.release();
    }
  }
  return rows;
}

/** What it takes to hand tensors to a graph that does nothing with most of them, put together anew as those of a step are. */
async function inputs(): Promise<void> {
  const rows: string[][] = [];
  for (const count of [25, 50, 100]) {
    const feeds: Feeds = {};
    for (let i = 1; i < count; i++) feeds[`input.${i}`] = floats([1, 1, 1]);
    const session = await sessionOf(1, (g) => {
      for (const input of ['own', ...Object.keys(feeds)]) g.input(input, 'float32', ['a', 'b', 'c']);
      return 'own';
    });
    const least = await leastOf(20 * runs, () => session.run({ own: floats([1, 1, 1]), ...feeds }));
    rows.push([String(count), formatNumber(least * 1000)]);
    await session.release();
  }
  console.log(formatTable([['inputs', 'µs a run'], ...rows]));
}

await elementwise();
console.log();
await inputs();
console.log();
const table = [['decodes', 'attention', 'µs a layer']];
for (const batch of readNumbers(options.batch)) {
  for (const context of readNumbers(options.context)) table.push(...(await attention(batch, context)));
}
console.log(formatTable(table));
