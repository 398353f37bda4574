/** Names by which the graph and the pool agree on the cache. */

/** Graph inputs that hold a layer's pages; scales only where the cache has any. */
export function cacheInputs(layer: number) {
  const prefix = `past_key_values.${layer}`;
  return { key: `${prefix}.key`, value: `${prefix}.value`, scale: `${prefix}.scale` };
}

/** Graph outputs with the step's rows, for the pool. */
export const STORED = {
  /** [layers, T, 2 * KV heads * head size] in the pool's type: each row's keys and then its values. */
  rows: 'present',
  /** f32 [layers, T, 2 * KV heads] what the elements of each head are multiplied by, where the cache has scales. */
  scales: 'present_scales',
} as const;
