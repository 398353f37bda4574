/** Options of `sluice serve` about who may connect, and how much one may ask for. */
import type { Command } from 'commander';
import { UserError } from '../errors.js';
import { defaultServerConfig, type ServerConfig } from '../server/config.js';
import { plainKeys, readKeyFile } from '../server/keys/key-file.js';
import { KeyRing } from '../server/keys/key-ring.js';
import { option } from './model-options.js';
import { formatSize, integer, parseSeconds, parseSize } from './values.js';

export interface HttpOptions {
  readonly apiKey?: readonly string[];
  readonly apiKeyFile?: string;
  readonly allowedOrigin?: readonly string[];
  readonly maxBodySize: number;
  readonly maxConnections: number;
  readonly sseKeepAlive: number;
  readonly stallTimeout: number;
  readonly resumeWindow: number;
}

function several(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value];
}

export function addHttpOptions(command: Command): Command {
  return command
    .optionsGroup('Clients:')
    .addOption(option('--api-key <key>', 'ask for this key; can be given several times').argParser(several))
    .addOption(option('--api-key-file <path>', 'ask for the keys of this JSON file, each with its limits'))
    .addOption(
      option(
        '--allowed-origin <origin>',
        'let pages of this origin only call the server; can be given several times',
      ).argParser(several),
    )
    .addOption(
      option('--max-body-size <size>', 'largest request')
        .argParser(parseSize)
        .default(defaultServerConfig.maxBodyBytes, formatSize(defaultServerConfig.maxBodyBytes).replace(' ', '')),
    )
    .addOption(
      option('--max-connections <n>', 'connections at once; more are closed at once')
        .argParser(integer(1))
        .default(10_000),
    )
    .addOption(
      option('--sse-keep-alive <time>', 'send a comment this often while a stream waits; 0 for never')
        .argParser(parseSeconds)
        .default(0, '0'),
    )
    .addOption(
      option('--stall-timeout <time>', 'drop a stream whose reader takes nothing for this long')
        .argParser(parseSeconds)
        .default(defaultServerConfig.stallTimeout, `${defaultServerConfig.stallTimeout}s`),
    )
    .addOption(
      option('--resume-window <time>', 'let clients resume a stream for this long after they lost it; 0 for never')
        .argParser(parseSeconds)
        .default(0, '0'),
    );
}

export function httpConfig(options: HttpOptions): Partial<ServerConfig> {
  return {
    maxBodyBytes: options.maxBodySize,
    keepAliveInterval: options.sseKeepAlive,
    stallTimeout: options.stallTimeout,
    resumeWindow: options.resumeWindow,
    ...(options.allowedOrigin && { allowedOrigins: options.allowedOrigin }),
  };
}

/** The keys to ask for; undefined where none are given. Throws UserError. */
export function keyRing({ apiKey, apiKeyFile }: HttpOptions): KeyRing | undefined {
  if (apiKey === undefined && apiKeyFile === undefined) return undefined;
  const specs = [...plainKeys(apiKey ?? []), ...(apiKeyFile === undefined ? [] : readKeyFile(apiKeyFile))];
  const names = new Set(specs.map(({ name }) => name));
  if (names.size < specs.length) {
    throw new UserError(`The file of API keys ${apiKeyFile} has a name that --api-key uses: key-1, key-2, ...`);
  }
  return new KeyRing(specs);
}
