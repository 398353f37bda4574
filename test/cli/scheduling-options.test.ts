/** Options about who is served when: as they are written, in the environment, and what the engine gets of them. */
import { Command } from 'commander';
import { afterEach, describe, expect, it } from 'vitest';
import { addSchedulingOptions, type SchedulingOptions, schedulingConfig } from '../../src/cli/scheduling-options.js';

afterEach(() => {
  for (const name of Object.keys(process.env)) if (name.startsWith('SLUICE_')) delete process.env[name];
});

const command = () => addSchedulingOptions(new Command().exitOverride().configureOutput({ writeErr: () => {} }));
const parse = (...args: string[]) =>
  schedulingConfig(command().parse(args, { from: 'user' }).opts<SchedulingOptions>());

describe('options of scheduling', () => {
  it('have defaults', () => {
    expect(parse()).toEqual({
      enablePrefixCaching: true,
      batching: 'continuous',
      batchWindow: undefined,
      fairShare: true,
      maxNumPartialPrefills: 2,
      mixedSteps: undefined,
      maxWaiting: 4096,
      maxWaitingTokens: undefined,
      queueTimeout: undefined,
    });
  });

  it('are what the engine gets, in its units', () => {
    const args =
      '--no-enable-mixed-chunk --batching dynamic --batch-window-ms 7.5 --no-enable-prefix-caching --no-fair-share --max-waiting 0';
    expect(parse(...args.split(' '), '--max-waiting-tokens', '5000', '--queue-timeout', '500ms')).toEqual({
      enablePrefixCaching: false,
      batching: 'dynamic',
      batchWindow: 0.0075,
      fairShare: false,
      maxNumPartialPrefills: 2,
      mixedSteps: false,
      maxWaiting: 0,
      maxWaitingTokens: 5000,
      queueTimeout: 0.5,
    });
    expect(parse('--enable-prefix-caching').enablePrefixCaching).toBe(true);
    expect(parse('--enable-mixed-chunk').mixedSteps).toBe(true);
  });

  it('can be in the environment', () => {
    process.env['SLUICE_NO_ENABLE_PREFIX_CACHING'] = '1';
    process.env['SLUICE_BATCHING'] = 'static';
    expect(parse()).toMatchObject({ enablePrefixCaching: false, batching: 'static' });
  });

  it('are refused when they cannot be read', () => {
    expect(() => parse('--batching', 'often')).toThrow('continuous');
    expect(() => parse('--queue-timeout', 'soon')).toThrow('30s');
    expect(() => parse('--max-waiting', '-1')).toThrow('0 or more');
  });
});
