/** Options of `sluice serve` about who is served when: batching, shares, what prompts share, and what may wait. */
import type { Command } from 'commander';
import type { Batching, EngineConfig } from '../engine/protocol.js';
import { option } from './model-options.js';
import { decimal, integer, parseSeconds } from './values.js';

export interface SchedulingOptions {
  readonly enablePrefixCaching: boolean;
  readonly batching: Batching;
  readonly batchWindowMs?: number;
  readonly fairShare: boolean;
  readonly maxNumPartialPrefills: number;
  readonly enableMixedChunk?: boolean;
  readonly maxWaiting: number;
  readonly maxWaitingTokens?: number;
  readonly queueTimeout: number;
}

export function addSchedulingOptions(command: Command): Command {
  return command
    .optionsGroup('Scheduling:')
    .addOption(
      option('--batching <policy>', 'when requests may join those that run')
        .choices(['continuous', 'dynamic', 'static', 'none'])
        .default('continuous'),
    )
    .addOption(
      option(
        '--batch-window-ms <ms>',
        'how long a dynamic or static batch waits to be full (default: 5 for dynamic, 10000 for static)',
      ).argParser(decimal(0, 3_600_000)),
    )
    .addOption(
      option('--max-num-partial-prefills <n>', 'prompts in hand at once that take more than a step each')
        .argParser(integer(1, 1024))
        .default(2),
    )
    .addOption(
      option('--enable-mixed-chunk', 'compute prompts and decodes in the same steps (default: on GPUs, not on CPUs)'),
    )
    .addOption(option('--no-enable-mixed-chunk', 'give prompts and decodes steps of their own, in turn'))
    .addOption(option('--no-enable-prefix-caching', 'compute every prompt from its start'))
    .addOption(
      option('--enable-prefix-caching', 'keep what prompts begin with for those that begin alike').default(true),
    )
    .addOption(option('--no-fair-share', 'serve requests of a priority in order of arrival, whoever sent them'))
    .addOption(
      option('--max-waiting <n>', 'requests that may wait for a place; more are refused with status 429')
        .argParser(integer(0))
        .default(4096),
    )
    .addOption(
      option('--max-waiting-tokens <n>', 'tokens of their prompts that may wait (default: any number)').argParser(
        integer(0),
      ),
    )
    .addOption(
      option('--queue-timeout <time>', 'how long a request may wait for a place, before status 503; 0 for any time')
        .argParser(parseSeconds)
        .default(0, '0'),
    );
}

/** What the options say to the engine. */
export function schedulingConfig(options: SchedulingOptions): Partial<EngineConfig> {
  const { batchWindowMs, queueTimeout } = options;
  return {
    enablePrefixCaching: options.enablePrefixCaching,
    batching: options.batching,
    batchWindow: batchWindowMs === undefined ? undefined : batchWindowMs / 1000,
    fairShare: options.fairShare,
    maxNumPartialPrefills: options.maxNumPartialPrefills,
    mixedSteps: options.enableMixedChunk,
    maxWaiting: options.maxWaiting,
    maxWaitingTokens: options.maxWaitingTokens,
    queueTimeout: queueTimeout === 0 ? undefined : queueTimeout,
  };
}
