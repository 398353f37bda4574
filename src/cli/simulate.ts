/** `sluice simulate` on the command line: its options. What it does is loaded when it runs. */
import { Command, Option } from 'commander';
import { addModelOptions, type ModelOptions } from './model-options.js';
import { addSchedulingOptions, type SchedulingOptions } from './scheduling-options.js';
import { decimal, integer } from './values.js';

export interface SimulateOptions extends SchedulingOptions {
  readonly requestRate?: string;
  readonly concurrency?: string;
  readonly arrival: 'poisson' | 'bursty';
  readonly burstiness: number;
  readonly numRequests: number;
  readonly seed: number;
  readonly promptTokens: string;
  readonly outputTokens: string;
  readonly sharedPrefixTokens: number;
  readonly prefixGroups: number;
  readonly users: number;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly maxModelLen: number;
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly stepTimes?: string;
  readonly json?: string;
}

export interface CalibrateOptions extends ModelOptions {
  readonly output: string;
}

/** @param finish gets the exit code of the command that ran */
export function simulateCommand(finish: (code: number) => void): Command {
  const command = new Command('simulate')
    .description('Run a load through the scheduler on a simulated clock: what would this set-up serve, and how fast?')
    .enablePositionalOptions();
  addLoadOptions(command);
  addEngineOptions(command);
  addSchedulingOptions(command);
  return command
    .optionsGroup('Time and results:')
    .option(
      '--step-times <file>',
      'how long steps take, from "simulate calibrate" (default: the bundled model on 2 cores)',
    )
    .option('--json <file>', 'write the results')
    .addCommand(calibrateCommand(finish))
    .action(async (options: SimulateOptions) => {
      const { runSimulations } = await import('./simulate-run.js');
      finish(await runSimulations(options));
    });
}

function addLoadOptions(command: Command): void {
  command
    .optionsGroup('Load:')
    .option('--request-rate <list>', 'open loop: requests a second; each number is a load (default: 1,2,4,8)')
    .option('--concurrency <list>', 'closed loop: requests at once; each number is a load')
    .addOption(new Option('--arrival <process>', 'of an open loop').choices(['poisson', 'bursty']).default('poisson'))
    .option('--burstiness <number>', 'shape of the gamma distribution of bursty gaps', decimal(0.01, 1000), 0.5)
    .option('--num-requests <n>', 'requests of a load', integer(1, 1e8), 10_000)
    .option('--seed <n>', 'of arrivals, lengths and prompts', integer(0), 0)
    .option(
      '--prompt-tokens <lengths>',
      '128, 64-512 (uniform), normal:256,64 (mean, deviation) or lognormal:200,0.8 (median, sigma)',
      'lognormal:200,0.8',
    )
    .option('--output-tokens <lengths>', 'in the same forms', 'lognormal:100,0.7')
    .option('--shared-prefix-tokens <n>', 'tokens before each prompt that others begin with too', integer(0), 0)
    .option('--prefix-groups <n>', 'how many different ones of them there are', integer(1), 1)
    .option('--users <n>', 'users that the requests are spread over', integer(1), 1);
}

function addEngineOptions(command: Command): void {
  command
    .optionsGroup('Engine:')
    .option('--max-num-seqs <n>', 'sequences that run at once', integer(1, 65_536), 64)
    .option('--max-num-batched-tokens <n>', 'tokens that one step may compute', integer(1, 1 << 20), 512)
    .option('--max-model-len <n>', 'longest sequence, prompt and answer together', integer(2), 8192)
    .option('--num-blocks <n>', 'blocks of the cache; "serve" prints how many its memory holds', integer(1, 1e7), 727)
    .option('--block-size <n>', 'tokens that a cache block holds', integer(1, 4096), 32);
}

function calibrateCommand(finish: (code: number) => void): Command {
  const command = new Command('calibrate')
    .description('Measure how long steps take here, with a model under loads of all kinds, for about a minute.')
    .optionsGroup('Results:')
    .requiredOption('--output <file>', 'where to write the step times');
  return addModelOptions(command).action(async (options: CalibrateOptions) => {
    const { calibrateSteps } = await import('./simulate-calibrate.js');
    finish(await calibrateSteps(options));
  });
}
