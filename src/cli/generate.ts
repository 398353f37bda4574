/** `sluice generate`: runs one prompt on the engine and streams the answer into the terminal. */
import { once } from 'node:events';
import { GREEDY, PLAIN_REQUEST } from '../engine/protocol.js';
import { startEngine } from '../engine/worker-client.js';
import { UserError } from '../errors.js';
import { Generation, type Job } from '../server/generation.js';
import type { ChatMessage, TextModel } from '../text/text-model.js';
import { ChatTemplateError } from '../text/text-model.js';
import { type OpenedModel, openModel } from './load.js';
import { engineConfig, type ModelOptions, modelName } from './model-options.js';
import { loadingProgress } from './progress.js';

export interface GenerateOptions extends ModelOptions {
  readonly maxTokens: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly seed?: number;
  readonly system?: string;
  readonly stop: readonly string[];
  /** Undefined: as a chat where the model has a template. */
  readonly chat?: boolean;
  readonly raw?: boolean;
}

/** As shells tell a command that SIGINT ended, and one that wrote to a pipe whose reader has gone. */
const interruptedCode = 130;
const outputClosedCode = 141;

/** Resolves with the exit code. */
export async function generate(prompt: string, options: GenerateOptions): Promise<number> {
  const config = engineConfig(options);
  const opened = await openModel(config, modelName(options.model));
  const tokens = await encode(opened.text, prompt, options);
  const progress = loadingProgress(process.stderr);
  const engine = startEngine(config, { onProgress: progress.update });
  const interrupted = new AbortController();
  let exitCode = 0;
  const interrupt = (code: number) => {
    exitCode = code;
    interrupted.abort();
  };
  const onSignal = () => {
    // The second signal waits for nothing.
    if (interrupted.signal.aborted) process.exit(exitCode);
    interrupt(interruptedCode);
  };
  const onOutputError = () => interrupt(outputClosedCode);
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  process.stdout.on('error', onOutputError);
  try {
    const info = await Promise.race([engine.ready(), once(interrupted.signal, 'abort').then(() => undefined)]);
    progress.stop();
    if (info === undefined) return exitCode;
    const { maxModelLen } = info;
    if (tokens.length >= maxModelLen) {
      throw new UserError(`The prompt has ${tokens.length} tokens; the model's context holds ${maxModelLen}.`);
    }
    const maxTokens = Math.min(options.maxTokens, maxModelLen - tokens.length);
    const generation = new Generation(engine, opened.text, job(tokens, maxTokens, opened, options));
    const start = performance.now();
    await generation.run((deltas) => {
      for (const { delta } of deltas) process.stdout.write(delta.text);
      return undefined;
    }, interrupted.signal);
    process.stdout.write('\n');
    if (process.stderr.isTTY) process.stderr.write(summary(generation, performance.now() - start));
    return exitCode;
  } finally {
    progress.stop();
    await engine.close();
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}

async function encode(text: TextModel, prompt: string, options: GenerateOptions): Promise<Int32Array> {
  const asChat = options.raw ? false : (options.chat ?? text.hasChatTemplate);
  if (!asChat) {
    const tokens = await text.encode(prompt, { addSpecialTokens: true, parseSpecialTokens: true });
    if (tokens.length === 0) throw new UserError('The prompt is empty: there is nothing to continue.');
    return tokens;
  }
  const system: ChatMessage[] = options.system === undefined ? [] : [{ role: 'system', content: options.system }];
  try {
    return await text.encodeChat([...system, { role: 'user', content: prompt }], {
      addGenerationPrompt: true,
      continueFinalMessage: false,
    });
  } catch (error) {
    if (error instanceof ChatTemplateError)
      throw new UserError(`${error.message} Use --raw to skip the chat template.`);
    throw error;
  }
}

function job(prompt: Int32Array, maxTokens: number, { model }: OpenedModel, options: GenerateOptions): Job {
  const { defaults, endTokens } = model;
  const sampling = {
    ...GREEDY,
    temperature: options.temperature ?? defaults.temperature ?? 1,
    topK: options.topK ?? defaults.topK ?? 0,
    topP: options.topP ?? defaults.topP ?? 1,
    minP: defaults.minP ?? 0,
    seed: options.seed ?? Math.floor(Math.random() * 2 ** 47),
    repetitionPenalty: defaults.repetitionPenalty ?? 1,
  };
  return {
    requests: [{ ...PLAIN_REQUEST, prompt, sampling, maxTokens, endTokens }],
    choice: { skipSpecialTokens: true, stop: options.stop, includeStop: false, minTokens: 0, logprobs: false },
  };
}

function summary(generation: Generation, milliseconds: number): string {
  const { promptTokens, completionTokens } = generation;
  const rate = completionTokens / (milliseconds / 1000);
  return `\n${promptTokens} prompt tokens, ${completionTokens} generated in ${(milliseconds / 1000).toFixed(1)} s (${rate.toFixed(1)} a second)\n`;
}
