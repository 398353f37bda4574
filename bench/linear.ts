/**
 * What the linear layers of a decoder cost by rows, for each way of storing weights: `node bench/run.mjs linear`. Shapes are
 * the bundled model's; every layer has weights of its own, so that they come from memory as they do in a step. Tells how near
 * the products are to their limits too: bytes of weights read a second, and multiplications and additions of 8-bit integers.
 */
import type { GraphBuilder, Value } from '../src/model/graph/builder.js';
import { floats, leastTime, randomFloats, sessionOf } from './support/graph.js';
import { readNumbers, readOptions } from './support/options.js';
import { formatNumber, formatTable } from './support/statistics.js';

const options = readOptions({
  rows: { type: 'string', default: '1,4,16,32,128,512' },
  kinds: { type: 'string', default: 'int8,int8-blocks,int4-blocks,fp32' },
  threads: { type: 'string', default: '2' },
  layers: { type: 'string', default: '30' },
  runs: { type: 'string', default: '15' },
});
const layers = Number(options.layers);

/** Inputs and outputs of qkv, o, gate, up and down of SmolLM2-135M. */
const SHAPES = [
  [576, 960],
  [576, 576],
  [576, 1536],
  [576, 1536],
  [1536, 576],
] as const;
const WEIGHTS = SHAPES.reduce((sum, [inputs, outputs]) => sum + inputs * outputs, 0);
const BLOCK = 32;
const MICROSOFT = { domain: 'com.microsoft' };

const bytes = (length: number): Uint8Array => Uint8Array.from({ length }, () => Math.random() * 256);

interface Kind {
  /** Bytes of a weight, scales included. */
  readonly size: number;
  product(g: GraphBuilder, input: Value, inputs: number, outputs: number): Value;
}

function blocks(bits: 4 | 8): Kind {
  return {
    size: bits / 8 + 4 / BLOCK,
    product(g, input, inputs, outputs) {
      const count = inputs / BLOCK;
      const weights = bytes((outputs * inputs * bits) / 8);
      const shape = [outputs, count, (BLOCK * bits) / 8];
      const scales = g.constant('float32', [outputs * count], randomFloats(outputs * count));
      const attributes = { K: inputs, N: outputs, bits, block_size: BLOCK, accuracy_level: 4 };
      return g.node('MatMulNBits', [input, g.constant('uint8', shape, weights), scales], {
        ...MICROSOFT,
        ...attributes,
      });
    },
  };
}

const KINDS: Record<string, Kind> = {
  int8: {
    size: 1,
    product(g, input, inputs, outputs) {
      const zero = g.constant('uint8', [], Uint8Array.of(128));
      const scale = g.float32Scalar(3.7 / 127);
      const rows = g.node('QuantizeLinear', [input, scale, zero]);
      const weights = g.constant('int8', [inputs, outputs], new Int8Array(bytes(inputs * outputs).buffer));
      const scales = g.constant('float32', [outputs], randomFloats(outputs));
      return g.node('MatMulIntegerToFloat', [rows, weights, scale, scales, zero], MICROSOFT);
    },
  },
  'int8-blocks': blocks(8),
  'int4-blocks': blocks(4),
  fp32: {
    size: 4,
    product: (g, input, inputs, outputs) =>
      g.node('MatMul', [input, g.constant('float32', [inputs, outputs], randomFloats(inputs * outputs))]),
  },
};

const table = [['weights', 'rows', 'µs a layer', 'GB/s of weights', '10^9 operations/s']];
for (const name of options.kinds.split(',')) {
  const kind = KINDS[name];
  if (kind === undefined) throw new Error(`"${name}" is none of ${Object.keys(KINDS).join(', ')}`);
  const session = await sessionOf(Number(options.threads), (g) => {
    const widths = [...new Set(SHAPES.map(([inputs]) => inputs))];
    for (const width of widths) g.input(`rows.${width}`, 'float32', [1, 'T', width]);
    // One number of each product, so that nothing but the products takes time.
    const results = Array.from({ length: layers }, () => SHAPES).flatMap((shapes) =>
      shapes.map(([inputs, outputs]) =>
        g.node('Slice', [kind.product(g, `rows.${inputs}`, inputs, outputs), g.int64([0]), g.int64([1]), g.int64([2])]),
      ),
    );
    return g.node('Concat', results, { axis: 2 });
  });
  for (const rows of readNumbers(options.rows)) {
    const feeds = { 'rows.576': floats([1, rows, 576]), 'rows.1536': floats([1, rows, 1536]) };
    const seconds = (await leastTime(session, feeds, Number(options.runs))) / 1000 / layers;
    const rate = (WEIGHTS * kind.size) / seconds / 1e9;
    const operations = (2 * WEIGHTS * rows) / seconds / 1e9;
    table.push([name, String(rows), formatNumber(seconds * 1e6), formatNumber(rate), formatNumber(operations)]);
  }
  await session.release();
}
console.log(formatTable(table));
