/**
 * What a decoder-only transformer is, as data. Every checkpoint format is read into this one type and every backend
 * builds its graph from it, so a family is a set of values here, not a fork of the code. What cannot be said here is
 * refused at load, by name.
 */

export type Activation = 'silu' | 'gelu_tanh';

/** Rotary position embedding over the first `dimensions` of each head, half-split pairs (i, i + dimensions / 2). */
export interface RopeSpec {
  readonly dimensions: number;
  /** Radians per position of each pair, f64 [dimensions / 2]; scaling such as llama3's is already applied. */
  readonly inverseFrequencies: Float64Array;
  /** Multiplies cos and sin (1 but for YaRN and LongRoPE). */
  readonly attentionFactor: number;
}

export interface LayerSpec {
  /** Index into `Architecture.ropes`. */
  readonly rope: number;
  /** A query sees itself and the window - 1 tokens before it; undefined sees all. */
  readonly slidingWindow: number | undefined;
}

export interface Architecture {
  /** The family's name in configuration files: llama, qwen2, qwen3, mistral, phi3, gemma3. */
  readonly family: string;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headSize: number;
  /** Longest context the model was made for, in tokens. */
  readonly maxPositions: number;
  readonly normEpsilon: number;
  readonly activation: Activation;
  /** Multiplies embedding rows: sqrt(hiddenSize) for Gemma, else 1. */
  readonly embeddingScale: number;
  /** Multiplies q·k: usually 1 / sqrt(headSize). */
  readonly attentionScale: number;
  /** Bias on q, k and v (Qwen2). */
  readonly qkvBias: boolean;
  /** RMSNorm over each q and k head before RoPE (Qwen3, Gemma 3). */
  readonly qkNorm: boolean;
  /** RMSNorm on the outputs of attention and feed-forward, before the residual sum (Gemma). */
  readonly postNorms: boolean;
  /** The head is the embedding matrix. */
  readonly tiedHead: boolean;
  readonly ropes: readonly RopeSpec[];
  readonly layers: readonly LayerSpec[];
}

/**
 * Names of a decoder's parameters, the same for every format. Matrices are [outputs, inputs], row-major. Norm weights
 * are the factor that is applied: a format that stores w for a factor of 1 + w is corrected by its reader. Rows of q and
 * k are in half-split RoPE order: a format that stores them interleaved is corrected by its reader.
 */
export type GlobalParameter = 'embedding' | 'finalNorm' | 'head';
export type LayerParameter =
  | 'attentionNorm'
  | 'q'
  | 'k'
  | 'v'
  | 'qBias'
  | 'kBias'
  | 'vBias'
  | 'qNorm'
  | 'kNorm'
  | 'o'
  | 'postAttentionNorm'
  | 'ffnNorm'
  | 'gate'
  | 'up'
  | 'down'
  | 'postFfnNorm';
export type ParameterName = GlobalParameter | `layers.${number}.${LayerParameter}`;
