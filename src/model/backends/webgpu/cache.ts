/**
 * The paged cache on the device: a key and a value tensor for each layer, fp16 [blocks, block size, KV heads, head
 * size]. A step gets each of them as an input and, the same tensor, as the place of an output, so that the kernels
 * write their slots in place and nothing is copied.
 */
import { InferenceSession, type OnnxValue, Tensor } from 'onnxruntime-node';
import { UserError } from '../../../errors.js';
import { GraphBuilder } from '../../graph/builder.js';
import { cacheNames } from './names.js';
import { webgpuSessionOptions } from './session.js';

export interface CacheShape {
  readonly layers: number;
  readonly kvHeads: number;
  readonly headSize: number;
  /** Tokens of a block. */
  readonly blockSize: number;
  readonly numBlocks: number;
}

const BYTES_PER_ELEMENT = 2;
/** What slots hold that were never written; 1 in fp16. */
const MARK = 0x3c00;

/** Bytes of one block in one layer's keys, or values. */
export function blockBytes(shape: Omit<CacheShape, 'numBlocks' | 'layers'>): number {
  return shape.kvHeads * shape.blockSize * shape.headSize * BYTES_PER_ELEMENT;
}

export class DeviceCache {
  /** The tensors by the names of the graph's inputs, and of its outputs. */
  readonly past: Readonly<Record<string, Tensor>>;
  readonly present: Readonly<Record<string, Tensor>>;
  readonly bytes: number;
  #copier: InferenceSession | undefined;

  private constructor(
    readonly shape: CacheShape,
    private readonly tensors: readonly Tensor[],
    /** Kept for as long as its tensors: the device goes with its last session, and aborts if buffers outlive it. */
    private readonly allocator: InferenceSession,
  ) {
    const name = (kind: 'past' | 'present') =>
      Object.fromEntries(tensors.map((tensor, i) => [cacheNames(i >> 1)[kind][i & 1] as string, tensor]));
    this.past = name('past');
    this.present = name('present');
    this.bytes = tensors.length * shape.numBlocks * blockBytes(shape);
  }

  /**
   * Allocates the cache.
   *
   * @throws UserError when the device has no room for it
   */
  static async create(shape: CacheShape): Promise<DeviceCache> {
    const g = new GraphBuilder('allocate');
    g.nodes('Expand', [g.constant('float16', [1], Uint16Array.of(MARK)), g.input('shape', 'int64', [4])], ['tensor']);
    g.output('tensor', 'float16', ['blocks', 'slots', 'heads', 'size']);
    const session = await InferenceSession.create(g.toBytes(), {
      ...webgpuSessionOptions(),
      preferredOutputLocation: 'gpu-buffer',
    });
    const tensors: Tensor[] = [];
    try {
      const dims = [shape.numBlocks, shape.blockSize, shape.kvHeads, shape.headSize];
      const feeds = { shape: new Tensor('int64', BigInt64Array.from(dims, BigInt), [4]) };
      while (tensors.length < 2 * shape.layers) {
        const { tensor } = await session.run(feeds);
        tensors.push(tensor as Tensor);
      }
      await verify(shape, tensors);
    } catch (error) {
      for (const tensor of tensors) tensor.dispose();
      await session.release();
      throw error;
    }
    return new DeviceCache(shape, tensors, session);
  }

  /** Copies whole blocks on the device, in order: source[i] to target[i]. */
  async copyBlocks(source: Int32Array, target: Int32Array): Promise<void> {
    this.#copier ??= await InferenceSession.create(this.#copyGraph(), webgpuSessionOptions());
    for (const [begin, end] of independentRuns(source, target)) {
      const indices = (blocks: Int32Array, dims: number[]) =>
        new Tensor('int64', BigInt64Array.from(blocks.subarray(begin, end), BigInt), dims);
      const fetches: Record<string, OnnxValue | null> = { ...this.present };
      const outputs = await this.#copier.run(
        {
          ...this.past,
          source: indices(source, [end - begin]),
          target: indices(target, [end - begin, 1]),
        },
        fetches,
      );
      for (const output of Object.values(outputs)) (output as Tensor).dispose();
    }
  }

  async dispose(): Promise<void> {
    await this.#copier?.release();
    this.#copier = undefined;
    for (const tensor of this.tensors) tensor.dispose();
    await this.allocator.release();
  }

  #copyGraph(): Uint8Array {
    const { layers, blockSize, kvHeads, headSize } = this.shape;
    const dims = ['blocks', blockSize, kvHeads, headSize];
    const g = new GraphBuilder('copy blocks');
    const source = g.input('source', 'int64', ['n']);
    const target = g.input('target', 'int64', ['n', 1]);
    for (let layer = 0; layer < layers; layer++) {
      const { past, present } = cacheNames(layer);
      past.forEach((name, i) => {
        const cache = g.input(name, 'float16', dims);
        const copied = g.node('Gather', [cache, source], { axis: 0, name: `${name}.read` });
        g.nodes('ScatterND', [cache, target, copied], [present[i] as string], { name: `${name}.write` });
        g.output(present[i] as string, 'float16', dims);
      });
    }
    return g.toBytes();
  }
}

/** Reads the last block of every tensor: a buffer that could not be allocated is reported by nobody, and reads as zeros. */
async function verify(shape: CacheShape, tensors: readonly Tensor[]): Promise<void> {
  const g = new GraphBuilder('verify');
  const dims = ['blocks', shape.blockSize, shape.kvHeads, shape.headSize];
  g.nodes('Gather', [g.input('tensor', 'float16', dims), g.input('block', 'int64', [1])], ['content'], { axis: 0 });
  g.output('content', 'float16', [1, ...dims.slice(1)]);
  const session = await InferenceSession.create(g.toBytes(), webgpuSessionOptions());
  try {
    const block = new Tensor('int64', BigInt64Array.of(BigInt(shape.numBlocks - 1)), [1]);
    for (const tensor of tensors) {
      const { content } = await session.run({ tensor, block });
      if ((content!.data as unknown as Uint16Array).some((bits) => bits !== MARK)) {
        const mib = Math.round((tensors.length * shape.numBlocks * blockBytes(shape)) / 2 ** 20);
        throw new UserError(`The GPU has no room for a cache of ${mib} MiB; give it less by --kv-cache-memory.`);
      }
    }
  } finally {
    await session.release();
  }
}

/**
 * Cuts a list of copies where one needs the result of another, or overwrites it: within a run all sources may be read
 * before any target is written. Yields [begin, end).
 */
export function* independentRuns(source: Int32Array, target: Int32Array): Generator<readonly [number, number]> {
  let begin = 0;
  let written = new Set<number>();
  for (let i = 0; i < source.length; i++) {
    if (written.has(source[i]!) || written.has(target[i]!)) {
      yield [begin, i];
      begin = i;
      written = new Set();
    }
    written.add(target[i]!);
  }
  if (begin < source.length) yield [begin, source.length];
}
