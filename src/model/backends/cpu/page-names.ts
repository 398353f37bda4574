/** Names by which the graph and the pool agree on the cache. */

/** Graph inputs that hold a layer's pages; scales only where the cache has any. */
export function cacheInputs(layer: number) {
  const prefix = `past_key_values.${layer}`;
  return { key: `${prefix}.key`, value: `${prefix}.value`, scale: `${prefix}.scale` };
}

/** Graph outputs with the step's rows, for the pool. */
export const STORED = {
  /** [2 * layers, T, KV heads * head size] in the pool's type: keys and values of each layer in turn. */
  rows: 'present',
  /** f32 [2 * layers, T, KV heads] what the elements of each head are multiplied by, where the cache has scales. */
  scales: 'present_scales',
} as const;
