/** llama.cpp through node-llama-cpp, which batches the sequences of one context. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { RunRequest, RunResult } from '../protocol.js';
import type { DrivenEngine } from './driver.js';

/** What is used of node-llama-cpp, which is installed apart from this repository. */
interface LlamaSequence {
  evaluate(
    tokens: readonly number[],
    options: { temperature: number; yieldEogToken: boolean },
  ): AsyncGenerator<number, void>;
  clearHistory(): Promise<void>;
}
interface LlamaContext {
  readonly currentThreads: number;
  getSequence(): LlamaSequence;
  dispose(): Promise<void>;
}
export interface LlamaModel {
  detokenize(tokens: readonly number[], specialTokens?: boolean): string;
  createContext(options: {
    sequences: number;
    contextSize: number;
    batchSize: number;
    threads: { ideal: number; min: number };
    flashAttention: 'auto' | boolean;
  }): Promise<LlamaContext>;
  dispose(): Promise<void>;
}
interface Llama {
  readonly systemInfo: string;
  loadModel(options: { modelPath: string; gpuLayers: number }): Promise<LlamaModel>;
  dispose(): Promise<void>;
}
interface LlamaModule {
  getLlama(options: { gpu: false; build: 'never'; maxThreads: number; logLevel: 'error' }): Promise<Llama>;
}

export interface LlamaOptions {
  /** Where npm installed node-llama-cpp. */
  readonly directory: string;
  readonly model: string;
  readonly sequences: number;
  /** Tokens of a sequence, prompt and answer. */
  readonly contextSize: number;
  readonly threads: number;
}

export interface OpenLlama {
  readonly description: string;
  readonly model: LlamaModel;
  /** Tokens of a continuation as they come, greedily, until `count`. Waits for a free sequence. */
  generate(prompt: readonly number[], count: number): AsyncGenerator<number, void>;
  close(): Promise<void>;
}

export async function openLlama(options: LlamaOptions): Promise<OpenLlama> {
  const entry = join(options.directory, 'node_modules', 'node-llama-cpp', 'dist', 'index.js');
  const { getLlama } = (await import(/* @vite-ignore */ pathToFileURL(entry).href)) as LlamaModule;
  const { threads } = options;
  const llama = await getLlama({ gpu: false, build: 'never', maxThreads: threads, logLevel: 'error' });
  const model = await llama.loadModel({ modelPath: options.model, gpuLayers: 0 });
  const context = await model.createContext({
    sequences: options.sequences,
    contextSize: options.contextSize,
    batchSize: 512,
    threads: { ideal: threads, min: threads },
    flashAttention: 'auto',
  });
  const free = Array.from({ length: options.sequences }, () => context.getSequence());
  const waiting: ((sequence: LlamaSequence) => void)[] = [];
  const take = (): LlamaSequence | Promise<LlamaSequence> =>
    free.shift() ?? new Promise((resolve) => waiting.push(resolve));
  const giveBack = (sequence: LlamaSequence): void => {
    const next = waiting.shift();
    if (next === undefined) free.push(sequence);
    else next(sequence);
  };
  return {
    description: `llama.cpp by node-llama-cpp, ${threads} threads, ${llama.systemInfo.replaceAll(/\s+/g, ' ').trim()}`,
    model,
    async *generate(prompt, count) {
      const sequence = await take();
      try {
        let generated = 0;
        for await (const token of sequence.evaluate([...prompt], { temperature: 0, yieldEogToken: true })) {
          yield token;
          if (++generated === count) break;
        }
      } finally {
        await sequence.clearHistory();
        giveBack(sequence);
      }
    },
    async close() {
      await context.dispose();
      await model.dispose();
      await llama.dispose();
    },
  };
}

export async function driveLlama(options: LlamaOptions): Promise<DrivenEngine> {
  const llama = await openLlama(options);
  return {
    description: llama.description,
    async run({ prompts, newTokens }: RunRequest, now): Promise<RunResult> {
      const times: number[][] = prompts.map(() => []);
      const tokens: number[][] = prompts.map(() => []);
      const each = async (prompt: readonly number[], index: number): Promise<void> => {
        for await (const token of llama.generate(prompt, newTokens)) {
          tokens[index]!.push(token);
          times[index]!.push(now());
        }
      };
      await Promise.all(prompts.map(each));
      return { tokens, times };
    },
    close: () => llama.close(),
  };
}
