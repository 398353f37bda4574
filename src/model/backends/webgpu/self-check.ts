/**
 * Before a device serves, its answers are held against the CPU's: a short greedy run on the device, then all its tokens
 * through the reference decoder with the same weights. Drivers and kernels that are wrong give fluent nonsense, and half
 * precision can overflow, both without an error.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { UserError } from '../../../errors.js';
import type { Checkpoint } from '../../formats/checkpoint.js';
import { referenceLogits, type StoredAs } from '../../reference.js';
import type { ModelRunner } from '../../runner.js';

/** Long enough for the kernels of long queries to take part, which differ from those of decodes. */
const PROMPT_TOKENS = 40;
const GENERATED_TOKENS = 8;

/**
 * Largest distance of a row of logits from the reference's, as a share of the latter's spread: |a - b| / |b - mean b|.
 * Half precision stays below 0.04 (SmolLM2 after tokens without sense), a wrong kernel reaches 0.2 to 0.6 within the run.
 */
const TOLERANCE = 0.1;

export interface SelfCheckOptions {
  readonly checkpoint: Checkpoint;
  /** The checkpoint's matrices as the device got them. */
  readonly storedAs: StoredAs;
  /** Tokens that passed are kept beside it, so that the reference runs only when the device's answer is a new one. */
  readonly modelFile: string;
  readonly deviceName: string;
}

/** @throws UserError when device and reference disagree */
export async function selfCheck(runner: ModelRunner, options: SelfCheckOptions): Promise<void> {
  const prompt = checkPrompt(runner);
  const run = await greedyRun(runner, prompt);
  if (run.finite) {
    const passed = await readPassed(options.modelFile);
    const key = run.tokens.join(' ');
    if (passed.includes(key)) return;
    const distance = await distanceFromReference(run, prompt.length, options);
    if (distance <= TOLERANCE) {
      await writePassed(options.modelFile, [...passed, key]);
      return;
    }
    throw disagreement(options.deviceName, `its logits are ${Math.round(100 * distance)} % away from the reference's`);
  }
  throw disagreement(options.deviceName, 'its logits are not finite (half precision overflows)');
}

function disagreement(device: string, what: string): UserError {
  return new UserError(
    `${device} computes this model wrongly: in a short run ${what}. Use --device cpu, or try a newer driver.`,
  );
}

/** Fixed tokens spread over the vocabulary; the first is one that most models begin with. */
function checkPrompt(runner: ModelRunner): number[] {
  const length = Math.min(PROMPT_TOKENS, runner.numBlocks * runner.blockSize - GENERATED_TOKENS);
  return Array.from({ length }, (_, i) => (i === 0 ? 1 : (i * 7919 + 17) % runner.vocabSize));
}

interface GreedyRun {
  /** Prompt and generated tokens. */
  readonly tokens: readonly number[];
  /** Logits that each generated token was chosen by. */
  readonly logits: readonly Float32Array[];
  readonly finite: boolean;
}

async function greedyRun(runner: ModelRunner, prompt: readonly number[]): Promise<GreedyRun> {
  const tokens = [...prompt];
  const logits: Float32Array[] = [];
  const maxBlocks = Math.ceil((prompt.length + GENERATED_TOKENS) / runner.blockSize);
  for (let past = 0; logits.length < GENERATED_TOKENS; ) {
    const rows = tokens.length - past;
    const { values } = await runner.run({
      tokens: Int32Array.from(tokens.slice(past)),
      cumulativeLengths: Int32Array.of(0, rows),
      pastLengths: Int32Array.of(past),
      blockTables: Int32Array.from({ length: maxBlocks }, (_, block) => block),
      maxBlocks,
      logitRows: Int32Array.of(rows - 1),
    });
    if (!values.every(Number.isFinite)) return { tokens, logits, finite: false };
    const row = values.slice();
    logits.push(row);
    past = tokens.length;
    tokens.push(row.indexOf(row.reduce((a, b) => Math.max(a, b))));
  }
  return { tokens, logits, finite: true };
}

async function distanceFromReference(run: GreedyRun, prompt: number, options: SelfCheckOptions): Promise<number> {
  const { checkpoint, storedAs } = options;
  // The last token was generated but not fed.
  const fed = run.tokens.slice(0, -1);
  const reference = await referenceLogits(checkpoint, fed, prompt - 1, storedAs);
  const { vocabSize } = checkpoint.architecture;
  const distances = run.logits.map((row, i) =>
    relativeDistance(row, reference.subarray(i * vocabSize, (i + 1) * vocabSize)),
  );
  return Math.max(...distances);
}

export function relativeDistance(row: Float32Array, reference: Float32Array): number {
  const mean = reference.reduce((sum, x) => sum + x, 0) / reference.length;
  let difference = 0;
  let spread = 0;
  for (let i = 0; i < reference.length; i++) {
    difference += (row[i]! - reference[i]!) ** 2;
    spread += (reference[i]! - mean) ** 2;
  }
  return Math.sqrt(difference / spread);
}

function passedFile(modelFile: string): string {
  return join(dirname(modelFile), 'self-check.json');
}

async function readPassed(modelFile: string): Promise<string[]> {
  try {
    const passed: unknown = JSON.parse(await readFile(passedFile(modelFile), 'utf8'));
    return Array.isArray(passed) ? passed.filter((entry) => typeof entry === 'string') : [];
  } catch {
    return [];
  }
}

/** A cache directory that cannot be written to only costs the next start some time. */
async function writePassed(modelFile: string, passed: readonly string[]): Promise<void> {
  await writeFile(passedFile(modelFile), JSON.stringify(passed)).catch(() => {});
}
