/** `sluice bench` on the command line: its options. What it does is loaded when it runs. */
import { Command, Option } from 'commander';
import type { BenchOptions } from './bench-settings.js';
import { decimal, integer } from './values.js';

/** @param finish gets the exit code of the command that ran */
export function benchCommand(finish: (code: number) => void): Command {
  const command = new Command('bench')
    .description('Offer load to an OpenAI-compatible server and measure latencies and throughput.')
    .argument('[serve-options...]', 'after --, where no server is named: options of the one to start');
  addTargetOptions(command);
  addLoadOptions(command);
  addRequestOptions(command);
  return command
    .optionsGroup('Results:')
    .option('--slo <objective>', 'of goodput: limits for ttft, tpot and e2e, as ttft:200ms,tpot:50ms')
    .option('--json <file>', 'write everything that was measured')
    .option('--report <file>', 'write an HTML page with plots')
    .addCommand(compareCommand(finish))
    .action(async (serveOptions: string[], options: BenchOptions) => {
      const { bench } = await import('./bench-run.js');
      finish(await bench(options, serveOptions));
    });
}

function addTargetOptions(command: Command): void {
  const collect = (header: string, headers: string[]): string[] => [...headers, header];
  command
    .optionsGroup('Server:')
    .option('--base-url <url>', 'the server, with or without /v1 (default: one is started on the bundled model)')
    .option('--model <name>', "name of the model (default: the server's first)")
    .addOption(new Option('--endpoint <name>', 'what to call').choices(['completions', 'chat']).default('completions'))
    .addOption(new Option('--api-key <key>', 'sent as a bearer token').env('SLUICE_API_KEY'))
    .option('--header <header>', 'a further header, as "Name: value"; may be given again', collect, []);
}

function addLoadOptions(command: Command): void {
  command
    .optionsGroup('Load:')
    .option('--concurrency <list>', 'closed loop: requests at once; each number is a load (default: 1,4,16)')
    .option('--request-rate <list>', 'open loop: requests a second, or inf; each number is a load')
    .addOption(new Option('--arrival <process>', 'of an open loop').choices(['poisson', 'bursty']).default('poisson'))
    .option('--burstiness <number>', 'shape of the gamma distribution of bursty gaps', decimal(0.01, 1000), 0.5)
    .option('--num-requests <n>', 'requests of a load (default: 4 for each at once, at least 16)', integer(1))
    .option('--duration <time>', 'send requests for so long instead; those under way are waited for')
    .option('--warmup <n>', 'requests before the first load, not measured', integer(0), 2)
    .option('--timeout <time>', 'of one request', '10m')
    .option('--seed <n>', 'of prompts, lengths and arrivals', integer(0), 0);
}

function addRequestOptions(command: Command): void {
  command
    .optionsGroup('Requests:')
    .option(
      '--prompt-tokens <lengths>',
      '128, 64-512 (uniform), normal:256,64 (mean, deviation) or lognormal:200,0.8 (median, sigma)',
      '128',
    )
    .option('--output-tokens <lengths>', 'max_tokens, in the same forms', '128')
    .option('--shared-prefix-tokens <n>', 'tokens before each prompt that are the same for all', integer(0), 0)
    .addOption(new Option('--prompt-as <form>', 'how completions get them').choices(['ids', 'words']).default('ids'))
    .option('--token-ids <range>', 'ids that prompts are made of', '1000-20000')
    .option('--prompts <file>', 'prompts to send instead; lines of "text", {"prompt": ...} or {"messages": [...]}')
    .option('--ignore-eos', 'ask for answers of exactly max_tokens', false)
    .option('--no-continuous-usage', 'do not ask for the count of tokens on every chunk')
    .option('--extra-body <json>', 'keys to add to every request');
}

function compareCommand(finish: (code: number) => void): Command {
  return new Command('compare')
    .description('Show the ratios between two files of bench --json.')
    .argument('<a>', 'what to compare with')
    .argument('<b>', 'what is compared')
    .action(async (a: string, b: string) => {
      const { compare } = await import('./bench-run.js');
      finish(await compare(a, b));
    });
}
