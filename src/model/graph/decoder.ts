/**
 * The decoder-only transformer as a graph, written once for all families and devices. What differs between devices
 * (linear layers, attention and the cache) is behind `Lowering`; what differs between families is in `Architecture`.
 */
import type { Architecture, ParameterName } from '../architecture.js';
import { Float, type GraphBuilder, type Value } from './builder.js';

/** A matrix product of the decoder. Several parameters that share an input are packed into one. */
export interface LinearLayer {
  readonly name: string;
  /** Matrices [outputs, inputs] whose rows follow each other in the packed product. */
  readonly parameters: readonly ParameterName[];
  /** Biases in the same order, or none. */
  readonly biases: readonly ParameterName[];
  /** Where its input comes from, which decides how the input can be quantized. */
  readonly input: 'norm' | 'attention' | 'activation';
}

export interface DecoderLinears {
  readonly layers: readonly Record<'qkv' | 'o' | 'gateUp' | 'down', LinearLayer>[];
  readonly head: LinearLayer;
}

export function decoderLinears(architecture: Architecture): DecoderLinears {
  const layers = architecture.layers.map((_, n) => {
    const at = <T extends string>(name: T) => `layers.${n}.${name}` as const;
    return {
      qkv: {
        name: at('qkv'),
        parameters: [at('q'), at('k'), at('v')],
        biases: architecture.qkvBias ? [at('qBias'), at('kBias'), at('vBias')] : [],
        input: 'norm',
      },
      o: { name: at('o'), parameters: [at('o')], biases: [], input: 'attention' },
      gateUp: { name: at('gateUp'), parameters: [at('gate'), at('up')], biases: [], input: 'norm' },
      down: { name: at('down'), parameters: [at('down')], biases: [], input: 'activation' },
    } as const;
  });
  const head: LinearLayer = {
    name: 'head',
    parameters: [architecture.tiedHead ? 'embedding' : 'head'],
    biases: [],
    input: 'norm',
  };
  return { layers, head };
}

/** What a device brings to the graph. Activations are [..., rows, width]; their rank is the lowering's own choice. */
export interface Lowering {
  /** Embedding rows of the step's tokens, scaled as the architecture says. */
  embed(g: GraphBuilder): Value;
  linear(g: GraphBuilder, layer: LinearLayer, input: Value): Value;
  /** Gate and up of the same rows: two products, or the halves of one (`splitHalves`). */
  gateUp(g: GraphBuilder, layer: LinearLayer, input: Value): readonly [gate: Value, up: Value];
  /** Packed q, k, v rows in, attention output rows out; writes the cache or hands its rows to the runner. */
  attention(g: GraphBuilder, layer: number, qkv: Value): Value;
  /** The weight of an RMSNorm, as a constant of the activations' type; undefined where it is folded away. */
  normWeight(g: GraphBuilder, name: ParameterName): Value;
  /** Whether a sum and its norm are one node; the CPU's kernel for both takes twice as long as one for each. */
  readonly fusedAddNorm: boolean;
  /** The rows whose logits are wanted. */
  logitRows(g: GraphBuilder, rows: Value): Value;
}

/** Adds the decoder to `g` and returns the logits of the rows asked for, [..., S, vocabulary]. */
export function buildDecoder(g: GraphBuilder, architecture: Architecture, lowering: Lowering): Value {
  const { layers, head } = decoderLinears(architecture);
  const epsilon = new Float(architecture.normEpsilon);
  const last = layers.length - 1;

  const norm = (name: string, x: Value, weight: ParameterName): Value =>
    g.node('SimplifiedLayerNormalization', [x, lowering.normWeight(g, weight)], { name, axis: -1, epsilon });
  /** x + skip and its norm. */
  const addNorm = (name: string, x: Value, skip: Value, weight: ParameterName): { sum: Value; normed: Value } => {
    const sum = `${name}.sum`;
    if (!lowering.fusedAddNorm) {
      g.nodes('Add', [x, skip], [sum], { name: sum });
      return { sum, normed: norm(name, sum, weight) };
    }
    const [normed] = g.nodes(
      'SkipSimplifiedLayerNormalization',
      [x, skip, lowering.normWeight(g, weight)],
      [name, '', '', sum],
      { domain: 'com.microsoft', name, epsilon },
    );
    return { sum, normed: normed as Value };
  };

  let residual = lowering.embed(g);
  let normed = norm('layers.0.attentionNorm', residual, 'layers.0.attentionNorm');
  layers.forEach((layer, n) => {
    const at = <T extends string>(name: T) => `layers.${n}.${name}` as const;
    let attended = lowering.attention(g, n, lowering.linear(g, layer.qkv, normed));
    if (n === last) {
      // Nothing after the last attention looks at other rows.
      attended = lowering.logitRows(g, attended);
      residual = lowering.logitRows(g, residual);
    }
    let update = lowering.linear(g, layer.o, attended);
    if (architecture.postNorms) update = norm(at('postAttentionNorm'), update, at('postAttentionNorm'));
    const middle = addNorm(at('ffnNorm'), residual, update, at('ffnNorm'));

    const [gate, up] = lowering.gateUp(g, layer.gateUp, middle.normed);
    const activated = activation(g, at('activation'), architecture, gate);
    const gated = g.node('Mul', [activated, up], { name: at('gated') });
    update = lowering.linear(g, layer.down, gated);
    if (architecture.postNorms) update = norm(at('postFfnNorm'), update, at('postFfnNorm'));
    const end =
      n === last
        ? addNorm('finalNorm', middle.sum, update, 'finalNorm')
        : addNorm(`layers.${n + 1}.attentionNorm`, middle.sum, update, `layers.${n + 1}.attentionNorm`);
    residual = end.sum;
    normed = end.normed;
  });
  return lowering.linear(g, head, normed);
}

/** The halves of the rows of a packed product. */
export function splitHalves(g: GraphBuilder, product: Value): readonly [Value, Value] {
  return g.nodes('Split', [product], 2, { name: `${product}.halves`, axis: -1, num_outputs: 2 }) as [Value, Value];
}

function activation(g: GraphBuilder, name: string, architecture: Architecture, x: Value): Value {
  switch (architecture.activation) {
    case 'silu':
      // x * sigmoid(alpha x) with alpha 1
      return g.node('QuickGelu', [x], { domain: 'com.microsoft', name, alpha: new Float(1) });
    case 'gelu_tanh':
      return g.node('Gelu', [x], { name, approximate: 'tanh' });
  }
}
