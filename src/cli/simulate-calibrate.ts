/** `sluice simulate calibrate`: runs the engine under loads of all kinds and writes how long its steps take. */
import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import type { NewRequest } from '../engine/client.js';
import type { EngineStats } from '../engine/protocol.js';
import { startEngine, type WorkerEngineClient } from '../engine/worker-client.js';
import { randomInteger, randomSource } from '../loadgen/random.js';
import { calibrate } from '../simulator/calibration.js';
import { TERMS } from '../simulator/step-time.js';
import { engineConfig, modelName } from './model-options.js';
import { loadingProgress } from './progress.js';
import type { CalibrateOptions } from './simulate.js';

/** Sequences at once, and of each load the tokens of a prompt and an answer. */
const CONCURRENCIES = [1, 2, 4, 8, 16, 32, 64];
const LENGTHS = [
  [16, 48],
  [128, 32],
  [400, 24],
] as const;
const LONG_PROMPTS = [700, 1500, 3000];

/** Resolves with the exit code. */
export async function calibrateSteps(options: CalibrateOptions): Promise<number> {
  // Prompts are random, but a prefix found by chance would make a step look faster than it is.
  const config = { ...engineConfig(options), enablePrefixCaching: false };
  const steps: EngineStats[] = [];
  const progress = loadingProgress(process.stderr);
  const engine = startEngine(config, { onProgress: progress.update, onStep: (stats) => steps.push(stats) });
  try {
    const info = await engine.ready();
    progress.stop();
    const load = new CalibrationLoad(engine, info.vocabSize, info.maxModelLen);
    // The first steps pay for what later ones find ready.
    await load.run(4, 64, 16);
    steps.length = 0;
    for (const concurrency of CONCURRENCIES.filter((count) => count <= config.maxNumSeqs)) {
      for (const [prompt, output] of LENGTHS) await load.run(concurrency, prompt, output);
    }
    for (const prompt of LONG_PROMPTS) await load.run(2, prompt, 8);
    const description = `${modelName(options.model)} (${info.precision}) on ${info.deviceDescription}; ${cpus()[0]?.model.trim() ?? 'unknown processor'}`;
    const { times, steps: count, error } = calibrate(steps, description);
    await writeFile(options.output, `${JSON.stringify(times, undefined, 2)}\n`);
    process.stdout.write(`${description}\n${count} steps, mean error of the fit ${(error * 100).toFixed(1)} %\n`);
    for (const [i, time] of times.microseconds.entries()) {
      process.stdout.write(`  ${TERMS[i]!.padEnd(14)} ${time} µs\n`);
    }
  } finally {
    progress.stop();
    await engine.close();
  }
  return 0;
}

class CalibrationLoad {
  readonly #random = randomSource(0, 'calibration');

  constructor(
    private readonly engine: WorkerEngineClient,
    private readonly vocabSize: number,
    private readonly maxModelLen: number,
  ) {}

  /** So many requests at once, none quite as long as another, so that steps of all sizes occur. */
  async run(concurrency: number, promptTokens: number, outputTokens: number): Promise<void> {
    const near = (length: number) => randomInteger(this.#random, Math.ceil(length * 0.7), Math.floor(length * 1.3));
    const requests = Array.from({ length: concurrency }, () => {
      const prompt = Math.min(near(promptTokens), this.maxModelLen - 2);
      return this.#request(prompt, Math.min(near(outputTokens), this.maxModelLen - prompt));
    });
    await Promise.all(
      requests.map(async (request) => {
        for await (const _outputs of this.engine.generate(request));
      }),
    );
  }

  #request(promptTokens: number, maxTokens: number): NewRequest {
    return {
      prompt: Int32Array.from({ length: promptTokens }, () => randomInteger(this.#random, 0, this.vocabSize - 1)),
      choices: 1,
      sampling: {
        temperature: 0,
        topK: 0,
        topP: 1,
        minP: 0,
        seed: 0,
        presencePenalty: 0,
        frequencyPenalty: 0,
        repetitionPenalty: 1,
        logitBias: [],
        allowedTokenIds: [],
        badWords: [],
      },
      maxTokens,
      minTokens: 0,
      endTokens: [],
      logprobs: undefined,
      promptLogprobs: undefined,
      priority: 0,
      user: '',
      cacheSalt: '',
    };
  }
}
