/** `sluice serve` in a process of its own, one for all tests of a file, with models prepared afresh. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect } from 'vitest';
import type { Json } from './server.js';
import { temporaryDirectory } from './temporary.js';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** The path of one of the small models in test/fixtures/models. */
export function fixtureModel(name: string): string {
  return fileURLToPath(new URL(`../fixtures/models/${name}`, import.meta.url));
}

export class ChildServer {
  url = '';
  stderr = '';
  #child!: ChildProcess;

  constructor(
    private readonly options: readonly string[],
    private readonly nodeOptions: readonly string[],
  ) {}

  get pid(): number {
    return this.#child.pid!;
  }

  /** Resolves when the model is loaded: only then the address is told. */
  async start(cache: string): Promise<void> {
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_'));
    this.#child = spawn(process.execPath, [...this.nodeOptions, MAIN, 'serve', '--port', '0', ...this.options], {
      cwd: tmpdir(),
      env: { ...Object.fromEntries(inherited), SLUICE_CACHE_DIR: cache },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const child = this.#child;
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    let stdout = '';
    this.url = await new Promise<string>((resolve, reject) => {
      child.stdout!.setEncoding('utf8').on('data', (text: string) => {
        stdout += text;
        const url = /^ {2}address +(\S+)$/m.exec(stdout)?.[1];
        if (url !== undefined) resolve(url);
      });
      child.once('close', (code) => reject(new Error(`the server ended with ${code}: ${this.stderr}`)));
    });
  }

  /** Ends it as an operator does; it must go without complaint. */
  async stop(): Promise<void> {
    if (this.url === '') return;
    const closed = once(this.#child, 'close');
    this.#child.kill('SIGTERM');
    const [code] = await closed;
    expect(code, this.stderr.slice(-2000)).toBe(0);
    expect(this.complaints()).toEqual([]);
  }

  /** Lines on standard error that are no entry of the log, such as warnings of Node, or one of level error and above. */
  complaints(): string[] {
    const lines = this.stderr.split('\n').filter((line) => line !== '');
    return lines.filter((line) => !line.startsWith('{"level":') || (JSON.parse(line) as Json).level >= 50);
  }

  async health(): Promise<Json> {
    return (await fetch(`${this.url}/health`)).json();
  }

  post(path: string, body: unknown, init: RequestInit = {}): Promise<Response> {
    return fetch(`${this.url}${path}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      ...init,
    });
  }

  /** The answer to a body that must be accepted. */
  async json(path: string, body: object): Promise<Json> {
    const response = await this.post(path, body);
    const json: Json = await response.json();
    if (response.status !== 200) throw new Error(`status ${response.status}: ${JSON.stringify(json)}`);
    return json;
  }

  completion(body: object): Promise<Json> {
    return this.json('/v1/completions', body);
  }

  /** Waits until nothing runs or waits, and tells the health of that moment. */
  async idle(): Promise<Json> {
    for (;;) {
      const health = await this.health();
      if (health.running === 0 && health.waiting === 0) return health;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

/**
 * Starts a server before the tests of the calling file or block, and stops it after them.
 * @param options of `sluice serve`
 * @param nodeOptions of the process
 */
export function childServer(options: readonly string[], nodeOptions: readonly string[] = []): ChildServer {
  const server = new ChildServer(options, nodeOptions);
  const cache = temporaryDirectory();
  beforeAll(() => server.start(cache));
  afterAll(() => server.stop());
  return server;
}
