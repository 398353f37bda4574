/** Bounds of the histograms: vLLM's where the name is vLLM's, so that dashboards and alerts made for it fit. */

/** Seconds to the first token. */
export const firstTokenBuckets = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
] as const;

/** Seconds from a token to the next. */
export const tokenGapBuckets = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
] as const;

/** Seconds of a request and of its stages. */
export const requestTimeBuckets = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
] as const;

/** Tokens of a step. */
export const stepTokenBuckets = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384] as const;

/** Sequences of a step. */
export const batchSizeBuckets = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] as const;

/** Seconds of a step. */
export const stepTimeBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60,
] as const;

/** 1, 2, 5, 10, 20, 50, ... up to `limit`: for numbers of tokens. */
export function lengthBuckets(limit: number): number[] {
  const buckets: number[] = [];
  for (let power = 1; power <= limit; power *= 10) {
    buckets.push(...[power, 2 * power, 5 * power].filter((bound) => bound <= limit));
  }
  return buckets;
}

/** Seconds that the event loop is late. */
export const loopDelayBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2.5, 5] as const;
