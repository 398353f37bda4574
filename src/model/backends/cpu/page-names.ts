/** Names by which the graph and the pool agree on the cache. */

/**
 * Pages of as many layers lie behind each other in one graph input, since each input costs every step 2 to 4 µs
 * (`bench/kernels.ts`); of no more, since an input ends at 4 GiB.
 */
export const LAYERS_PER_INPUT = 16;

/** Graph inputs that hold a layer's pages, among those of others; scales only where the cache has any. */
export function cacheInputs(layer: number) {
  const prefix = `past_key_values.${Math.floor(layer / LAYERS_PER_INPUT)}`;
  return { key: `${prefix}.key`, value: `${prefix}.value`, scale: `${prefix}.scale` };
}

/** Graph input i32 [layers]: where each layer's pages begin in its input. */
export const FIRST_PAGES = 'first_pages';

/** Graph outputs with the step's rows, for the pool. */
export const STORED = {
  /** [2 * layers, T, KV heads * head size] in the pool's type: keys and values of each layer in turn. */
  rows: 'present',
  /** f32 [2 * layers, T, KV heads] what the elements of each head are multiplied by, where the cache has scales. */
  scales: 'present_scales',
} as const;
