/**
 * The architecture of a GGUF file, from its metadata. Keys: ggml/docs/gguf.md; what they mean for each family, and what
 * is assumed where they are absent: src/models/ of llama.cpp.
 */
import { LoadError } from '../../../errors.js';
import type { Architecture, LayerSpec, RopeSpec } from '../../architecture.js';
import { baseFrequencies, scaleLinearly } from '../../rope.js';
import { checkArchitecture, checkHeadSize, FAMILIES, type FamilyName } from '../families.js';
import type { Settings } from '../settings.js';
import type { StoredTensor } from '../tensor.js';

/** Families by `general.architecture`. Mistral models are written as llama. */
const SUPPORTED: ReadonlySet<FamilyName> = new Set<FamilyName>(['llama', 'qwen2', 'qwen3', 'phi3', 'gemma3']);

export function ggufFamily(metadata: Settings): FamilyName {
  const name = metadata.string('general.architecture');
  if (SUPPORTED.has(name as FamilyName)) return name as FamilyName;
  return metadata.fail('general.architecture', `is ${name}, which is not supported (${[...SUPPORTED].join(', ')} are)`);
}

/**
 * @param tensors for what metadata leaves to them: vocabulary size, biases, a head of its own
 * @param ropeFactors contents of rope_freqs.weight, where there is one: f32 divisors of the frequencies
 */
export function ggufArchitecture(
  metadata: Settings,
  tensors: ReadonlyMap<string, StoredTensor>,
  ropeFactors: Float32Array | undefined,
): Architecture {
  const { file } = metadata;
  const familyName = ggufFamily(metadata);
  const family = FAMILIES[familyName];
  const key = (name: string): string => `${familyName}.${name}`;
  refuseUnsupported(metadata, key);

  const hiddenSize = metadata.integer(key('embedding_length'));
  const numHeads = metadata.integer(key('attention.head_count'));
  const headSize = checkHeadSize(file, metadata.integer(key('attention.key_length'), hiddenSize / numHeads));
  const valueSize = metadata.integer(key('attention.value_length'), headSize);
  if (valueSize !== headSize) {
    throw new LoadError(file, `keys of size ${headSize} with values of size ${valueSize} are not supported`);
  }
  const numLayers = metadata.integer(key('block_count'));
  if (numLayers > tensors.size) {
    throw new LoadError(file, `${key('block_count')} is ${numLayers}, but the file holds ${tensors.size} tensors`);
  }
  const windowed = slidingLayers(metadata, familyName, numLayers);
  const { ropes, localRope } = ropeSpecs(metadata, familyName, headSize, ropeFactors);
  const layers = windowed.map(
    (window): LayerSpec => ({ rope: window === undefined ? 0 : localRope, slidingWindow: window }),
  );

  const architecture: Architecture = {
    family: family.name,
    vocabSize: vocabularySize(metadata, tensors),
    hiddenSize,
    intermediateSize: metadata.integer(key('feed_forward_length')),
    numHeads,
    numKvHeads: metadata.integer(key('attention.head_count_kv'), numHeads),
    headSize,
    maxPositions: metadata.integer(key('context_length')),
    normEpsilon: metadata.positive(key('attention.layer_norm_rms_epsilon')),
    activation: family.activation,
    embeddingScale: family.scaledEmbedding ? Math.sqrt(hiddenSize) : 1,
    attentionScale: attentionScale(familyName, numLayers, hiddenSize, numHeads, headSize),
    qkvBias: family.qkvBias || tensors.has('blk.0.attn_q.bias'),
    qkNorm: family.qkNorm,
    postNorms: family.postNorms,
    tiedHead: !tensors.has('output.weight'),
    ropes,
    layers,
  };
  checkArchitecture(file, architecture);
  return architecture;
}

function refuseUnsupported(metadata: Settings, key: (name: string) => string): void {
  const parts = metadata.optionalInteger('split.count') ?? 1;
  if (parts > 1) {
    throw new LoadError(metadata.file, `one of ${parts} parts; join them with "llama-gguf-split --merge" first`);
  }
  for (const name of ['attn_logit_softcapping', 'final_logit_softcapping', 'expert_count']) {
    if ((metadata.optionalNumber(key(name)) ?? 0) !== 0) metadata.fail(key(name), 'is set, which is not supported');
  }
  if (metadata.optionalBoolean(key('attention.causal')) === false) {
    metadata.fail(key('attention.causal'), 'is false, which is not supported');
  }
}

/** llama.cpp knows Gemma 3 27B by its 62 layers; it alone scales by hiddenSize / heads (query_pre_attn_scalar 168). */
function attentionScale(family: FamilyName, layers: number, hidden: number, heads: number, headSize: number): number {
  return 1 / Math.sqrt(family === 'gemma3' && layers === 62 ? hidden / heads : headSize);
}

function vocabularySize(metadata: Settings, tensors: ReadonlyMap<string, StoredTensor>): number {
  const embedding = tensors.get('token_embd.weight');
  if (embedding === undefined) throw new LoadError(metadata.file, 'tensor token_embd.weight is missing');
  const rows = embedding.shape[0]!;
  const tokens = metadata.list('tokenizer.ggml.tokens');
  if (tokens === undefined) return metadata.fail('tokenizer.ggml.tokens', 'is missing');
  if (tokens.length > rows) {
    throw new LoadError(metadata.file, `the vocabulary has ${tokens.length} tokens, but the embedding ${rows} rows`);
  }
  return rows;
}

/** The window of each layer. Qwen files may carry the key, but the families use it nowhere by default. */
function slidingLayers(metadata: Settings, family: FamilyName, layers: number): (number | undefined)[] {
  const window = metadata.optionalNumber(`${family}.attention.sliding_window`) ?? 0;
  if (window <= 0 || family === 'qwen2' || family === 'qwen3') return Array(layers).fill(undefined);
  metadata.integer(`${family}.attention.sliding_window`);
  if (family !== 'gemma3') return Array(layers).fill(window);
  const patternKey = 'gemma3.attention.sliding_window_pattern';
  const flags = Array.isArray(metadata.values[patternKey]) ? metadata.list(patternKey) : undefined;
  const period = flags === undefined ? metadata.integer(patternKey, 6) : 0;
  if (flags !== undefined && flags.length !== layers)
    metadata.fail(patternKey, `does not have one entry for each layer`);
  return Array.from({ length: layers }, (_, i) => {
    const local = flags === undefined ? i % period < period - 1 : flags[i] === true || flags[i] === 1;
    return local ? window : undefined;
  });
}

function ropeSpecs(
  metadata: Settings,
  family: FamilyName,
  headSize: number,
  factors: Float32Array | undefined,
): { ropes: RopeSpec[]; localRope: number } {
  const dimensions = metadata.integer(`${family}.rope.dimension_count`, headSize);
  if (dimensions > headSize)
    metadata.fail(`${family}.rope.dimension_count`, `is ${dimensions}, above the head size ${headSize}`);
  const base = metadata.positive(`${family}.rope.freq_base`, 10_000);
  let frequencies = scaleLinearly(baseFrequencies(base, dimensions), linearFactor(metadata, family));
  if (factors !== undefined) {
    if (factors.length !== frequencies.length || factors.some((factor) => !(factor > 0))) {
      throw new LoadError(metadata.file, 'tensor rope_freqs.weight does not fit the model');
    }
    frequencies = frequencies.map((frequency, pair) => frequency / factors[pair]!);
  }
  const ropes = [{ dimensions, inverseFrequencies: frequencies, attentionFactor: 1 }];
  if (family !== 'gemma3') return { ropes, localRope: 0 };
  const localBase = metadata.positive('gemma3.rope.freq_base_swa', 10_000);
  ropes.push({ dimensions, inverseFrequencies: baseFrequencies(localBase, dimensions), attentionFactor: 1 });
  return { ropes, localRope: 1 };
}

function linearFactor(metadata: Settings, family: FamilyName): number {
  const typeKey = `${family}.rope.scaling.type`;
  const type = metadata.optionalString(typeKey);
  if (type !== undefined && type !== 'none' && type !== 'linear') {
    return metadata.fail(typeKey, `is ${type}, which is not supported (none and linear are)`);
  }
  if (type === 'none') return 1;
  const factorKey = `${family}.rope.scaling.factor`;
  return metadata.positive(metadata.has(factorKey) ? factorKey : `${family}.rope.scale_linear`, 1);
}
