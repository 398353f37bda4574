/** Options about who may connect: as they are written, in the environment, and what becomes of them. */
import { Command } from 'commander';
import { afterEach, describe, expect, it } from 'vitest';
import { addHttpOptions, type HttpOptions, httpConfig, keyRing } from '../../src/cli/http-options.js';

afterEach(() => {
  for (const name of Object.keys(process.env)) if (name.startsWith('SLUICE_')) delete process.env[name];
});

function parse(...args: string[]): HttpOptions {
  return addHttpOptions(new Command()).parse(args, { from: 'user' }).opts<HttpOptions>();
}

describe('options of clients', () => {
  it('have defaults', () => {
    const options = parse();
    expect(httpConfig(options)).toEqual({
      maxBodyBytes: 10 * 1024 ** 2,
      keepAliveInterval: 0,
      stallTimeout: 300,
      resumeWindow: 0,
    });
    expect(options.maxConnections).toBe(10_000);
    expect(keyRing(options)).toBeUndefined();
  });

  it('take several keys and origins', () => {
    const options = parse('--api-key', 'a', '--api-key', 'b', '--allowed-origin', 'https://a', '--allowed-origin', 'x');
    const ring = keyRing(options)!;
    expect(['a', 'b', 'c'].map((key) => ring.find(`Bearer ${key}`)?.name)).toEqual(['key-1', 'key-2', undefined]);
    expect(httpConfig(options).allowedOrigins).toEqual(['https://a', 'x']);
  });

  it('can be in the environment', () => {
    process.env['SLUICE_API_KEY'] = 'from-env';
    process.env['SLUICE_RESUME_WINDOW'] = '2m';
    process.env['SLUICE_MAX_BODY_SIZE'] = '1MiB';
    const options = parse();
    expect(keyRing(options)!.find('Bearer from-env')?.name).toBe('key-1');
    expect(httpConfig(options)).toMatchObject({ resumeWindow: 120, maxBodyBytes: 1024 ** 2 });
  });

  it('say what is wrong', () => {
    expect(() => keyRing(parse('--api-key', ''))).toThrow('--api-key');
    expect(() => keyRing(parse('--api-key-file', '/nowhere'))).toThrow('/nowhere');
  });
});
