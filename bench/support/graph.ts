/** Small graphs whose kernels are timed. */
import { performance } from 'node:perf_hooks';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { GraphBuilder, type Value } from '../../src/model/graph/builder.js';

export type Feeds = Record<string, Tensor>;

/** Numbers in [-0.5, 0.5). */
export function randomFloats(count: number): Float32Array {
  return Float32Array.from({ length: count }, () => Math.random() - 0.5);
}

export function floats(shape: readonly number[]): Tensor {
  return new Tensor('float32', randomFloats(shape.reduce((a, b) => a * b, 1)), shape);
}

/** A session of the graph that `build` writes; `build` returns what has to be computed. */
export async function sessionOf(threads: number, build: (g: GraphBuilder) => Value): Promise<InferenceSession> {
  const g = new GraphBuilder('bench');
  g.alias(build(g), 'result');
  g.output('result', 'float32', ['a', 'b', 'c']);
  return InferenceSession.create(g.toBytes(), {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    enableMemPattern: false,
    logSeverityLevel: 3,
  });
}

/** Least milliseconds of a few runs: what disturbs a run only ever makes it longer. */
export async function leastTime(session: InferenceSession, feeds: Feeds, runs: number): Promise<number> {
  return leastOf(runs, () => session.run(feeds));
}

/** The same of whatever `run` does. */
export async function leastOf(runs: number, run: () => Promise<unknown>): Promise<number> {
  await run();
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < runs; i++) {
    const start = performance.now();
    await run();
    least = Math.min(least, performance.now() - start);
  }
  return least;
}
