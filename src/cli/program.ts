/** The command line: commands, options, help. What a command does is loaded only when it runs, so that help is quick. */
import { Command } from 'commander';
import { logLevels } from '../telemetry/levels.js';
import { version } from '../version.js';
import { benchCommand } from './bench.js';
import type { GenerateOptions } from './generate.js';
import { addHttpOptions } from './http-options.js';
import { addModelOptions, option } from './model-options.js';
import { addSchedulingOptions } from './scheduling-options.js';
import type { ServeOptions } from './serve.js';
import { simulateCommand } from './simulate.js';
import { decimal, integer, parseSeconds } from './values.js';

/** `finish` gets the exit code of the command that ran. */
export function makeProgram(finish: (code: number) => void): Command {
  const program = new Command('sluice')
    .description('Serves large language models to many clients at once, with the API of OpenAI.')
    .version(version)
    .configureHelp({ helpWidth: Math.min(process.stdout.columns ?? 100, 110) })
    .showHelpAfterError('(sluice --help tells more)');
  program.addCommand(inherit(program, serveCommand(finish)));
  program.addCommand(inherit(program, generateCommand(finish)));
  program.addCommand(inherit(program, benchCommand(finish)));
  program.addCommand(inherit(program, simulateCommand(finish)));
  return program;
}

function inherit(program: Command, command: Command): Command {
  return command.copyInheritedSettings(program);
}

function serveCommand(finish: (code: number) => void): Command {
  const command = new Command('serve')
    .description('Load a model and serve it over HTTP. Every option can be given as SLUICE_... in the environment.')
    .optionsGroup('Server:')
    .addOption(option('--host <address>', 'address to listen on; 0.0.0.0 for all').default('127.0.0.1'))
    .addOption(option('--port <n>', 'port to listen on; 0 for any').argParser(integer(0, 65_535)).default(8000))
    .addOption(option('--served-model-name <name>', "name of the model for clients (default: its file's)"))
    .addOption(
      option('--shutdown-timeout <time>', 'time for running requests to end after SIGTERM or SIGINT')
        .argParser(parseSeconds)
        .default(30, '30s'),
    )
    .addOption(
      option('--progress-timeout <time>', 'call the server stalled when a step takes longer; see /health')
        .argParser(parseSeconds)
        .default(60, '60s'),
    )
    .addOption(option('--log-level <level>', 'least level to log').choices(logLevels).default('info'))
    .addOption(option('--log-content', 'log prompts and answers, too; they are never logged otherwise').default(false))
    .addOption(option('--no-metrics', 'measure nothing; there is no /metrics then'));
  return addSchedulingOptions(addModelOptions(addHttpOptions(command))).action(async (options: ServeOptions) => {
    const { serve } = await import('./serve.js');
    finish(await serve(options));
  });
}

function generateCommand(finish: (code: number) => void): Command {
  const command = new Command('generate')
    .description('Run one prompt and stream the answer into the terminal.')
    .argument('<prompt>', 'what to answer or continue')
    .optionsGroup('Generation:')
    .option('--max-tokens <n>', 'tokens to generate at most', integer(1), 256)
    .option('--temperature <number>', "0 is greedy (default: the model's own)", decimal(0, 100))
    .option(
      '--top-p <number>',
      "smallest set of tokens that reaches this probability (default: the model's own)",
      decimal(0, 1),
    )
    .option('--top-k <n>', "likeliest tokens to choose from (default: the model's own)", integer(0))
    .option('--seed <n>', 'the same seed gives the same answer (default: random)', integer(0))
    .option('--stop <text...>', 'end before this text', [])
    .option('--system <text>', 'system message of the chat')
    .option('--chat', 'take the prompt as a message of a chat (default where the model has a template)')
    .option('--raw', 'continue the prompt as it is');
  return addModelOptions(command).action(async (prompt: string, options: GenerateOptions) => {
    const { generate } = await import('./generate.js');
    finish(await generate(prompt, options));
  });
}
