/** Requests of all sizes and numbers, so that an engine shows how long steps of every kind take. */
import { PLAIN_REQUEST } from '../engine/protocol.js';
import type { WorkerEngineClient } from '../engine/worker-client.js';
import { randomInteger, randomSource } from '../loadgen/random.js';

/** Sequences at once, and of each the tokens of a prompt and an answer. */
const CONCURRENCIES = [1, 2, 4, 8, 16, 32, 64];
const LENGTHS = [
  { prompt: 16, output: 24, most: 64 },
  { prompt: 128, output: 16, most: 64 },
  { prompt: 400, output: 12, most: 16 },
] as const;
const LONG_PROMPTS = [700, 1500, 3000];

export class CalibrationLoad {
  readonly #random = randomSource(0, 'calibration');

  constructor(
    private readonly engine: WorkerEngineClient,
    private readonly maxNumSeqs: number,
  ) {}

  /** The first steps pay for what later ones find ready. */
  async warmUp(): Promise<void> {
    await this.#run(4, 64, 16);
  }

  async run(): Promise<void> {
    for (const concurrency of CONCURRENCIES) {
      for (const { prompt, output, most } of LENGTHS) {
        if (concurrency <= Math.min(most, this.maxNumSeqs)) await this.#run(concurrency, prompt, output);
      }
    }
    for (const prompt of LONG_PROMPTS) await this.#run(1, prompt, 8);
  }

  /** So many requests at once, none quite as long as another, so that steps of all sizes occur. */
  async #run(concurrency: number, promptTokens: number, outputTokens: number): Promise<void> {
    const { vocabSize, maxModelLen } = this.engine.info!;
    const near = (length: number) => randomInteger(this.#random, Math.ceil(length * 0.7), Math.floor(length * 1.3));
    const requests = Array.from({ length: concurrency }, () => {
      const prompt = Math.min(near(promptTokens), maxModelLen - 2);
      const tokens = Int32Array.from({ length: prompt }, () => randomInteger(this.#random, 0, vocabSize - 1));
      const maxTokens = Math.min(near(outputTokens), maxModelLen - prompt);
      return { ...PLAIN_REQUEST, prompt: tokens, maxTokens };
    });
    await Promise.all(
      requests.map(async (request) => {
        for await (const _outputs of this.engine.generate(request));
      }),
    );
  }
}
