/**
 * Balances queries and keys, so that 8 bits hold both: some channels of keys are much larger than the rest of their head, by
 * their weights or their bias. How large a channel is on average is known before the model runs, as the rows that its
 * weights multiply have a root mean square of one. Keys are divided by a factor for each channel and the queries of their
 * group multiplied by it, which leaves products as they are and both of like size (the idea of SmoothQuant,
 * arXiv 2211.10438). Channels that rope turns into each other share one.
 */
import type { Architecture, LayerParameter, ParameterName } from '../../architecture.js';
import type { Checkpoint } from '../../formats/checkpoint.js';

/** What queries [heads * head size] and keys [KV heads * head size] of a layer are multiplied by. */
export interface BalanceFactors {
  readonly q: Float32Array;
  readonly k: Float32Array;
}

/**
 * Of the ratio of mean squares: 1/4 makes queries and keys alike, 1/2 the channels of keys. With the bundled model this lost
 * least, though hardly less than its neighbours.
 */
const EXPONENT = 0.3;

export async function balanceFactors(checkpoint: Checkpoint, layer: number): Promise<BalanceFactors> {
  const { architecture } = checkpoint;
  const { numHeads, numKvHeads, headSize } = architecture;
  const query = await meanSquares(checkpoint, layer, 'q');
  const key = await meanSquares(checkpoint, layer, 'k');
  const group = numHeads / numKvHeads;
  const q = new Float32Array(numHeads * headSize);
  const k = new Float32Array(numKvHeads * headSize);
  for (let head = 0; head < numKvHeads; head++) {
    for (let channel = 0; channel < headSize; channel++) {
      let ofKey = 0;
      let ofQueries = 0;
      for (const c of partners(architecture, layer, channel)) {
        ofKey += key[head * headSize + c] as number;
        for (let g = 0; g < group; g++) ofQueries += query[(head * group + g) * headSize + c] as number;
      }
      const factor = ofKey > 0 && ofQueries > 0 ? ((ofKey * group) / ofQueries) ** EXPONENT : 1;
      k[head * headSize + channel] = 1 / factor;
      for (let g = 0; g < group; g++) q[(head * group + g) * headSize + channel] = factor;
    }
  }
  return { q, k };
}

/** The channel and the one that rope mixes it with, if any. */
function partners(architecture: Architecture, layer: number, channel: number): number[] {
  const { dimensions } = architecture.ropes[architecture.layers[layer]?.rope ?? 0] ?? { dimensions: 0 };
  if (channel >= dimensions) return [channel];
  return [channel, (channel + dimensions / 2) % dimensions];
}

/** Of each channel of each head, behind a norm of heads where there is one. */
async function meanSquares(checkpoint: Checkpoint, layer: number, part: 'q' | 'k'): Promise<Float64Array> {
  const read = (name: LayerParameter) => checkpoint.readFloat32(`layers.${layer}.${name}` as ParameterName);
  const { hiddenSize, headSize, qkNorm, qkvBias } = checkpoint.architecture;
  const matrix = await read(part);
  const norm = await read('attentionNorm');
  const bias = qkvBias ? await read(`${part}Bias`) : undefined;
  const squares = Float64Array.from({ length: matrix.length / hiddenSize }, (_, row) => {
    let sum = (bias?.[row] ?? 0) ** 2;
    for (let i = 0; i < hiddenSize; i++) sum += ((matrix[row * hiddenSize + i] as number) * (norm[i] as number)) ** 2;
    return sum;
  });
  if (!qkNorm) return squares;
  const weights = await read(`${part}Norm`);
  for (let head = 0; head < squares.length; head += headSize) {
    const channels = squares.subarray(head, head + headSize);
    const mean = channels.reduce((a, b) => a + b, 0) / headSize;
    for (let c = 0; c < headSize; c++) {
      channels[c] = mean > 0 ? ((channels[c] as number) / mean) * (weights[c] as number) ** 2 : 0;
    }
  }
  return squares;
}
