/** What the CPU lowerings share: everything but how weights are stored and multiplied with. */
import type { Architecture, ParameterName } from '../../architecture.js';
import type { GraphBuilder, Value } from '../../graph/builder.js';
import { type LinearLayer, type Lowering, splitHalves } from '../../graph/decoder.js';
import type { PageFormat } from './pages.js';
import { attentionBlock, ROW_INPUTS, type RopeTables } from './rows.js';
import type { WeightWriter } from './weights.js';

export interface CpuLowering {
  readonly lowering: Lowering;
  /** The rows for the pool, keys and values of each layer in turn, filled in as the decoder is built. */
  readonly present: readonly Value[];
  /** f32 [1, S, 1], positive: what the decoder's logits are still to be multiplied by, once it is built; or nothing. */
  logitScale(): Value | undefined;
}

/** How a lowering multiplies. */
export interface Products {
  linear(g: GraphBuilder, layer: LinearLayer, input: Value): Value;
  /** Where gate and up are products of their own; otherwise one, which is split. */
  gateUp?: Lowering['gateUp'];
  normWeight(g: GraphBuilder, name: ParameterName): Value;
  /** The head's product and the scale of its rows, where that is a pass over all logits that most steps can do without. */
  head?(g: GraphBuilder, layer: LinearLayer, input: Value): { logits: Value; scale: Value };
}

export function cpuLowering(
  architecture: Architecture,
  weights: WeightWriter,
  ropes: readonly RopeTables[],
  pages: PageFormat,
  products: Products,
): CpuLowering {
  const present: Value[] = [];
  let logitScale: Value | undefined;
  const lowering: Lowering = {
    gateUp: (g, layer, input) => splitHalves(g, products.linear(g, layer, input)),
    ...products,
    fusedAddNorm: false,
    linear(g, layer, input) {
      if (layer.name !== 'head' || products.head === undefined) return products.linear(g, layer, input);
      const { logits, scale } = products.head(g, layer, input);
      logitScale = scale;
      return logits;
    },
    embed(g) {
      const rows = g.node('Gather', [weights.value('embedding'), ROW_INPUTS.tokens], {
        axis: 0,
        name: 'embedding_rows',
      });
      if (architecture.embeddingScale === 1) return rows;
      return g.node('Mul', [rows, g.float32Scalar(architecture.embeddingScale)], { name: 'embedding_scaled' });
    },
    attention(g, layer, qkv) {
      const rope = ropes[architecture.layers[layer]?.rope ?? 0] as RopeTables;
      const headNorm = architecture.qkNorm ? weights.value(`layers.${layer}.headNorm`) : undefined;
      const block = attentionBlock(g, architecture, layer, qkv, rope, headNorm, pages);
      present.push(block.k, block.v);
      return block.output;
    },
    logitRows: (g, rows) => g.node('Gather', [rows, ROW_INPUTS.logitRows], { axis: 1, name: 'logit_rows_of' }),
  };
  return { lowering, present, logitScale: () => logitScale };
}
