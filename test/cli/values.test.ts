/** Values of options as people write them. */
import { InvalidArgumentError } from 'commander';
import { describe, expect, it } from 'vitest';
import { engineConfig, modelName } from '../../src/cli/model-options.js';
import { makeProgram } from '../../src/cli/program.js';
import { decimal, formatSize, integer, parseSeconds, parseSize } from '../../src/cli/values.js';

describe('sizes', () => {
  it.each([
    ['1GiB', 1024 ** 3],
    ['512MiB', 512 * 1024 ** 2],
    ['1.5g', 1.5 * 1024 ** 3],
    ['2 GB', 2e9],
    ['64k', 65_536],
    ['1000', 1000],
    ['10B', 10],
  ])('%s is %d bytes', (text, bytes) => {
    expect(parseSize(text)).toBe(bytes);
  });

  it.each(['', 'GiB', '-1GiB', '1XB', '1e9', 'one', '1GiB2'])('%j is none', (text) => {
    expect(() => parseSize(text)).toThrow(InvalidArgumentError);
  });

  it('are written for people', () => {
    expect([1024 ** 3, 1_073_479_680, 1536, 10, 512 * 1024 ** 2].map(formatSize)).toEqual([
      '1 GiB',
      '1024 MiB',
      '1.5 KiB',
      '10 B',
      '512 MiB',
    ]);
  });
});

describe('times', () => {
  it.each([
    ['30s', 30],
    ['30', 30],
    ['2m', 120],
    ['500ms', 0.5],
    ['1.5h', 5400],
    ['0', 0],
  ])('%s is %d seconds', (text, seconds) => {
    expect(parseSeconds(text)).toBe(seconds);
  });

  it.each(['', 's', '-1s', '1d', 'soon'])('%j is none', (text) => {
    expect(() => parseSeconds(text)).toThrow(InvalidArgumentError);
  });
});

describe('numbers', () => {
  it('stay within their range', () => {
    expect(integer(0, 10)('10')).toBe(10);
    for (const text of ['', '11', '-1', '1.5', 'x', '1e999'])
      expect(() => integer(0, 10)(text)).toThrow(/whole number/);
    expect(decimal(0, 1)('0.5')).toBe(0.5);
    for (const text of ['', '2', '-1', 'x', 'NaN']) expect(() => decimal(0, 1)(text)).toThrow(/number/);
  });
});

describe('the name of a model', () => {
  it.each([
    ['models/SmolLM2-135M-Instruct.Q4_1.gguf', 'SmolLM2-135M-Instruct'],
    ['/x/qwen2.5-0.5b-instruct-q4_k_m.gguf', 'qwen2.5-0.5b-instruct'],
    ['Model F16.gguf', 'Model-F16'],
    ['Model.f16.GGUF', 'Model'],
    ['/models/tiny-llama/', 'tiny-llama'],
    ['a b (c).gguf', 'a-b-c'],
  ])('of %s is %s', (path, name) => {
    expect(modelName(path)).toBe(name);
  });
});

describe('options', () => {
  /** What `serve` would get: its action is replaced. */
  function serveOptions(args: string[], env: Record<string, string> = {}): Record<string, unknown> {
    const before = { ...process.env };
    Object.assign(process.env, env);
    try {
      const program = makeProgram(() => {});
      const serve = program.commands.find((command) => command.name() === 'serve')!;
      serve.action(() => {});
      program.parse(['serve', ...args], { from: 'user' });
      return serve.opts();
    } finally {
      process.env = before;
    }
  }

  it('have the defaults that the help shows', () => {
    const options = serveOptions([]);
    expect(options).toMatchObject({
      host: '127.0.0.1',
      port: 8000,
      device: 'auto',
      precision: 'auto',
      threads: 0,
      dataParallelSize: 0,
      maxNumSeqs: 64,
      maxNumBatchedTokens: 512,
      kvCacheMemory: 512 * 1024 ** 2,
      kvCacheDtype: 'auto',
      shutdownTimeout: 30,
    });
    expect(options['model']).toMatch(/models\/SmolLM2-135M-Instruct\.Q4_1\.gguf$/);
    expect(options).not.toHaveProperty('maxModelLen');
    expect(options).not.toHaveProperty('blockSize');
  });

  it('come from arguments, else from the environment', () => {
    const env = { SLUICE_PORT: '9000', SLUICE_KV_CACHE_MEMORY: '64MiB', SLUICE_MAX_NUM_SEQS: '3' };
    expect(serveOptions(['--port', '7000'], env)).toMatchObject({
      port: 7000,
      kvCacheMemory: 64 * 1024 ** 2,
      maxNumSeqs: 3,
    });
  });

  it("become the engine's configuration", () => {
    const options = serveOptions(['--model', 'some/model', '--max-model-len', '100', '--precision', 'fp32']);
    expect(engineConfig(options as never)).toEqual({
      model: expect.stringMatching(/\/some\/model$/),
      device: 'auto',
      precision: 'fp32',
      threads: 0,
      dataParallelSize: 0,
      maxNumSeqs: 64,
      maxNumBatchedTokens: 512,
      maxModelLen: 100,
      kvCacheMemory: 512 * 1024 ** 2,
      kvCacheDtype: 'auto',
    });
  });
});
