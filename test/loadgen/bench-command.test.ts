import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { benchCommand } from '../../src/cli/bench.js';
import {
  completionChunk,
  DONE,
  FRAMINGS,
  type MockScript,
  type MockServer,
  startMock,
  usageChunk,
} from '../support/mock-openai.js';

const { frame } = FRAMINGS[0]!;
const answering: MockScript = ({ body }) => ({
  steps: Array.from({ length: body.max_tokens }, (_, index) => {
    const last = index + 1 === body.max_tokens;
    const chunk = frame(completionChunk(' x', { usage: index + 1, ...(last ? { finish: 'length' } : {}) }));
    return { delay: 2, bytes: last ? chunk + frame(usageChunk(index + 1, 3)) + frame(DONE) : chunk };
  }),
});

let mock: MockServer;
let folder: string;
let output: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bench-'));
  output = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    output += text;
    return true;
  });
});
afterEach(async () => {
  vi.restoreAllMocks();
  await mock?.close();
  await rm(folder, { recursive: true });
});

/** The exit code. */
async function bench(...args: string[]): Promise<number | undefined> {
  let code: number | undefined;
  const command = benchCommand((given) => {
    code = given;
  });
  await command.exitOverride().parseAsync(args, { from: 'user' });
  return code;
}

describe('sluice bench', () => {
  it('runs every load after a warm-up, prints its figures, and writes both files', async () => {
    // Of the second load, the fourth request to arrive is refused.
    mock = await startMock((request, index) =>
      index === 2 + 8 + 3
        ? { status: 429, headers: {}, steps: [{ bytes: '{"error":{"message":"full"}}' }] }
        : answering(request, index),
    );
    const json = join(folder, 'a.json');
    const report = join(folder, 'a.html');
    await bench(
      ...['--base-url', mock.url, '--concurrency', '2', '--request-rate', '100', '--num-requests', '8'],
      ...['--output-tokens', '5', '--prompt-tokens', '6', '--slo', 'ttft:2s', '--json', json, '--report', report],
    );
    expect(mock.requests).toHaveLength(2 + 8 + 8);
    expect(mock.requests[0]!.body).toMatchObject({ model: 'mock-model', max_tokens: 5 });
    expect(output).toMatch(/concurrency 2: 8 requests, 0 failed/);
    expect(output).toMatch(/100 req\/s poisson: 7 requests, 1 failed/);
    expect(output).toMatch(/goodput .* 100 % \(ttft <= 2000 ms\)/);
    expect(output).toMatch(/40 prompt tokens \(24 cached\), 40 output tokens/);
    expect(output).toMatch(/error: 1 x http_429, as "full"/);
    expect(output).toMatch(/load +req\/s +out tok\/s/);

    const written = JSON.parse(await readFile(json, 'utf8'));
    expect(written).toMatchObject({ format: 'sluice-bench', model: 'mock-model' });
    expect(written.loads.map((load: { requests: unknown[] }) => load.requests.length)).toEqual([8, 8]);
    expect(written.loads[0].requests[0].answer.chunkSizes).toEqual([1, 1, 1, 1, 1]);
    expect(await readFile(report, 'utf8')).toContain('<h1>mock-model</h1>');

    await bench('compare', json, json);
    expect(output).toMatch(/TTFT p50 ms +[\d.]+ +[\d.]+ +1\.00/);
  });

  it('counts failures by kind, and fails itself only when nothing completed', async () => {
    mock = await startMock((request, index) => (index % 4 === 3 ? 'drop' : answering(request, index)));
    const common = [
      '--base-url',
      mock.url,
      '--warmup',
      '0',
      '--concurrency',
      '1',
      '--num-requests',
      '8',
      '--output-tokens',
      '2',
    ];
    expect(await bench(...common)).toBe(0);
    expect(output).toMatch(/6 requests, 2 failed/);
    expect(output).toMatch(/error: 2 x connection/);
    await mock.close();

    mock = await startMock(() => 'drop');
    expect(await bench('--base-url', mock.url, ...common.slice(2))).toBe(1);
    expect(output).toMatch(/0 requests, 8 failed/);
  });

  it('stops before the load when no warm-up request succeeds', async () => {
    mock = await startMock(() => ({
      status: 401,
      headers: {},
      steps: [{ bytes: '{"error":{"message":"wrong key"}}' }],
    }));
    await expect(bench('--base-url', mock.url)).rejects.toThrow(/every warm-up request failed \(http_401\): wrong key/);
    expect(mock.requests).toHaveLength(2);
  });

  it('keeps key and headers out of what it writes', async () => {
    mock = await startMock(answering);
    const json = join(folder, 'a.json');
    const report = join(folder, 'a.html');
    await bench(
      ...['--base-url', mock.url, '--concurrency', '1', '--num-requests', '1', '--output-tokens', '2', '--json', json],
      ...['--report', report, '--api-key', 'sk-secret-1', '--header', 'X-Token: secret-2'],
    );
    expect(mock.requests[0]!.headers).toMatchObject({ authorization: 'Bearer sk-secret-1', 'x-token': 'secret-2' });
    expect((await readFile(json, 'utf8')) + (await readFile(report, 'utf8')) + output).not.toMatch(/secret-[12]/);
  });

  it.each([
    [['--base-url', 'localhost:1'], /neither http nor https/],
    [['--base-url', 'x'], /not a URL/],
    [['--base-url', 'http://127.0.0.1:2', '--header', 'oops'], /header "oops"/],
    [['--base-url', 'http://127.0.0.1:2', '--token-ids', '9-3'], /not a range of token ids/],
    [['--base-url', 'http://127.0.0.1:2', '--api-key', 'a\nb'], /the header "authorization" holds/],
    [['--base-url', 'http://127.0.0.1:2', '--extra-body', '[1]'], /--extra-body is not a JSON object/],
    [['--base-url', 'http://127.0.0.1:2', '--request-rate', 'inf', '--duration', '3s'], /needs --num-requests/],
    [['--base-url', 'http://127.0.0.1:2', '--', '--threads', '1'], /"--threads 1" is for a server to start/],
    [['--base-url', 'http://127.0.0.1:2', '--endpoint', 'embeddings'], /Allowed choices are completions, chat/],
    [['--base-url', 'http://127.0.0.1:2'], /\/v1\/models: .*ECONNREFUSED.*is the server up/],
  ])('says what is wrong with %j', async (args, message) => {
    await expect(bench(...args)).rejects.toThrow(message);
  });

  it('refuses to compare what is no result', async () => {
    const file = join(folder, 'x.json');
    await writeFile(file, '{"format":"other"}');
    await expect(bench('compare', file, file)).rejects.toThrow(/x.json: not a result file/);
  });
});
