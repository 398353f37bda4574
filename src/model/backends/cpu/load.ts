/** Prepares a checkpoint for the CPU and loads it. */
import type { EngineConfig, KvCacheDtype, Precision } from '../../../engine/protocol.js';
import { UserError } from '../../../errors.js';
import type { Architecture } from '../../architecture.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import { parameterShapes } from '../../formats/parameters.js';
import type { GraphBuilder } from '../../graph/builder.js';
import { buildDecoder } from '../../graph/decoder.js';
import type { WeightStore } from '../../graph/weight-store.js';
import { prepareModel } from '../../prepare.js';
import type { ModelRunner } from '../../runner.js';
import { declareAttentionInputs } from './attention-inputs.js';
import { blockLowering } from './blocks.js';
import { fp32Lowering } from './fp32.js';
import { int8Lowering } from './int8.js';
import { reduceLogits } from './logits.js';
import { packModel } from './pack.js';
import { defaultBlockSize, pageFormat } from './pages.js';
import { kernelTarget, productsAreExact } from './processor.js';
import { canRotate } from './rotation.js';
import { declareRowInputs } from './rows.js';
import { CpuRunner } from './runner.js';

interface LoweringChoice {
  readonly lower: typeof fp32Lowering;
  /**
   * Whether weights are kept in their kernel's own layout. MatMulNBits (ONNX Runtime 1.30) saves one that it does not read
   * back as it was.
   */
  readonly packed: boolean;
  /** What the cache may be in: first what it is in unless another is asked for. */
  readonly cacheTypes: readonly [KvCacheDtype, ...KvCacheDtype[]];
}

/** Undefined where the CPU has no lowering for a precision. */
function loweringOf(precision: Precision, architecture: Architecture): LoweringChoice | undefined {
  const inBlocks = (bits: 4 | 8): LoweringChoice => ({
    lower: (...args) => blockLowering(bits, ...args),
    packed: false,
    cacheTypes: ['float16', 'float32'],
  });
  switch (precision) {
    case 'fp32':
      return { lower: fp32Lowering, packed: true, cacheTypes: ['float32', 'float16'] };
    case 'int8':
      if (!canRotate(architecture)) return inBlocks(8);
      return {
        lower: int8Lowering,
        packed: true,
        cacheTypes: productsAreExact() ? ['int8', 'float16', 'float32'] : ['float16', 'float32'],
      };
    case 'int4':
      return inBlocks(4);
    case 'fp16':
      return undefined;
  }
}

export async function loadCpuModel(
  checkpoint: Checkpoint,
  config: EngineConfig,
  progress: (phase: string, fraction: number) => void,
): Promise<{ runner: ModelRunner; precision: Precision; kvCacheDtype: KvCacheDtype }> {
  const precision = config.precision === 'auto' ? automaticPrecision(checkpoint) : config.precision;
  const { architecture } = checkpoint;
  const lowering = loweringOf(precision, architecture);
  if (lowering === undefined) {
    throw new UserError(`--precision ${precision} is not available on the CPU; use fp32, int8, int4 or auto.`);
  }
  const { kvCacheDtype: wanted = 'auto' } = config;
  const { cacheTypes } = lowering;
  const cacheType = wanted === 'auto' ? cacheTypes[0] : wanted;
  if (!cacheTypes.includes(cacheType)) {
    const known = cacheTypes.join(', ');
    throw new UserError(
      `--kv-cache-dtype ${wanted} is not available for this model in ${precision}; use ${known} or auto.`,
    );
  }
  const { blockSize = defaultBlockSize(cacheType) } = config;
  const modelFile = await prepareModel(
    ['cpu', precision, cacheType, checkpoint.fingerprint, blockSize, lowering.packed ? kernelTarget() : ''],
    (g, store) =>
      buildCpuGraph(g, store, checkpoint, lowering.lower, blockSize, cacheType, (fraction) =>
        progress('prepare', fraction),
      ),
    lowering.packed ? packModel : undefined,
  );
  progress('load', 0);
  const runner = await CpuRunner.create({
    modelFile,
    architecture,
    blockSize,
    cacheType,
    kvCacheMemory: config.kvCacheMemory,
    threads: config.threads,
    // Without a file to share, each replica would hold weights of its own: only for those who ask for it.
    replicas: config.dataParallelSize || (lowering.packed ? 0 : 1),
  });
  try {
    progress('load', 1);
  } catch (error) {
    await runner.dispose();
    throw error;
  }
  return { runner, precision, kvCacheDtype: cacheType };
}

/** Bytes of fp32 weights that a CPU's last cache holds: below, 8 bits save nothing and cost accuracy. */
const CACHED_WEIGHTS = 32 * 2 ** 20;

function automaticPrecision(checkpoint: Checkpoint): Precision {
  const { architecture } = checkpoint;
  let elements = 0;
  for (const [, shape] of parameterShapes(architecture)) elements += shape.reduce((a, b) => a * b, 1);
  return elements * Float32Array.BYTES_PER_ELEMENT > CACHED_WEIGHTS ? 'int8' : 'fp32';
}

async function buildCpuGraph(
  g: GraphBuilder,
  store: WeightStore,
  checkpoint: Checkpoint,
  lower: typeof fp32Lowering,
  blockSize: number,
  cacheType: KvCacheDtype,
  progress: (fraction: number) => void,
): Promise<void> {
  const { architecture } = checkpoint;
  declareRowInputs(g);
  declareAttentionInputs(g, architecture);
  const pages = pageFormat(cacheType, architecture, blockSize);
  pages.declare(g);
  const { lowering, present, logitScale } = await lower(
    g,
    checkpoint,
    store,
    { positions: architecture.maxPositions, pages },
    progress,
  );
  const logits = buildDecoder(g, architecture, lowering);
  reduceLogits(g, logits, architecture.vocabSize, logitScale());
  const rows = g.node('Concat', present, { axis: 0, name: 'present_rows' });
  g.scope('present', () => pages.store(g, rows));
}
