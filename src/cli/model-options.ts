/** Options that say which model runs and how, shared by every command that runs one. */
import { basename, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Command, Option } from 'commander';
import type { EngineConfig } from '../engine/protocol.js';
import { decimal, integer, parseSize } from './values.js';

/** The model that comes with the package. */
const bundledModel = fileURLToPath(new URL('../../models/SmolLM2-135M-Instruct.Q4_1.gguf', import.meta.url));

export interface ModelOptions {
  readonly model: string;
  readonly device: EngineConfig['device'];
  readonly precision: EngineConfig['precision'];
  readonly threads: number;
  readonly dataParallelSize: number;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly maxModelLen?: number;
  readonly kvCacheMemory: number;
  readonly kvCacheDtype: NonNullable<EngineConfig['kvCacheDtype']>;
  readonly gpuMemoryUtilization?: number;
  readonly blockSize?: number;
}

/** An option that can also be given as SLUICE_<NAME> in the environment. */
export function option(flags: string, description: string): Option {
  const made = new Option(flags, description);
  return made.env(`SLUICE_${made.name().toUpperCase().replaceAll('-', '_')}`);
}

export function addModelOptions(command: Command): Command {
  return command
    .optionsGroup('Model:')
    .addOption(
      option('--model <path>', 'GGUF file, or directory with safetensors or an onnxruntime-genai export').default(
        bundledModel,
        'the bundled SmolLM2-135M-Instruct',
      ),
    )
    .addOption(option('--device <device>', 'where it runs').choices(['auto', 'cpu', 'webgpu']).default('auto'))
    .addOption(
      option('--precision <type>', 'number type of weights and activations')
        .choices(['auto', 'fp32', 'fp16', 'int8', 'int4'])
        .default('auto'),
    )
    .addOption(
      option('--threads <n>', 'threads of the CPU backend').argParser(integer(0, 1024)).default(0, 'one a core'),
    )
    .addOption(
      option('--data-parallel-size <n>', 'replicas of the model on the CPU that steps may be divided between')
        .argParser(integer(0, 64))
        .default(0, 'one a thread, with up to 4 threads'),
    )
    .optionsGroup('Batching and cache:')
    .addOption(option('--max-num-seqs <n>', 'sequences that run at once').argParser(integer(1, 65_536)).default(64))
    .addOption(
      option('--max-num-batched-tokens <n>', 'tokens that one step may compute')
        .argParser(integer(1, 1 << 20))
        .default(512),
    )
    .addOption(
      option(
        '--max-model-len <n>',
        "longest sequence, prompt and answer together (default: the model's own)",
      ).argParser(integer(1)),
    )
    .addOption(
      option('--kv-cache-memory <size>', 'memory of the paged key and value cache')
        .argParser(parseSize)
        .default(512 * 1024 ** 2, '512MiB'),
    )
    .addOption(
      option('--kv-cache-dtype <type>', 'number type of the paged key and value cache')
        .choices(['auto', 'float32', 'float16', 'int8'])
        .default('auto'),
    )
    .addOption(
      option(
        '--gpu-memory-utilization <share>',
        'share of the free GPU memory for weights and cache, in place of --kv-cache-memory',
      ).argParser(decimal(0.01, 1)),
    )
    .addOption(
      option(
        '--block-size <n>',
        'tokens that a cache block holds (default: 64 where the cache is of int8, else 32)',
      ).argParser(integer(1, 4096)),
    );
}

export function engineConfig(options: ModelOptions): EngineConfig {
  return {
    model: resolve(options.model),
    device: options.device,
    precision: options.precision,
    threads: options.threads,
    dataParallelSize: options.dataParallelSize,
    maxNumSeqs: options.maxNumSeqs,
    maxNumBatchedTokens: options.maxNumBatchedTokens,
    maxModelLen: options.maxModelLen,
    kvCacheMemory: options.kvCacheMemory,
    kvCacheDtype: options.kvCacheDtype,
    gpuMemoryUtilization: options.gpuMemoryUtilization,
    blockSize: options.blockSize,
  };
}

/** The name a model is served under: its file's or directory's, without format and quantization. */
export function modelName(path: string): string {
  const name = basename(resolve(path))
    .replace(/\.(gguf|onnx)$/i, '')
    .replace(/[-._](q\d\w*|iq\d\w*|f16|f32|bf16|fp16|fp32|int8|int4)$/i, '')
    .replaceAll(/[^\w.-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '');
  return name === '' ? 'model' : name;
}
