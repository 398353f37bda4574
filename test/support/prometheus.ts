/** A real Prometheus that scrapes a server, and promtool; both are of Debian's package. */
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { Json } from './server.js';

const PROMETHEUS = '/usr/bin/prometheus';
const PROMTOOL = '/usr/bin/promtool';

/** In continuous integration a missing Prometheus fails the tests that need it; elsewhere they are skipped, and say so. */
export const prometheusIsMissing = !existsSync(PROMETHEUS) && process.env['CI'] === undefined;
if (prometheusIsMissing) console.warn(`PROMETHEUS TESTS SKIPPED: no ${PROMETHEUS}. Run .ci/install-tools.`);

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

export class Prometheus {
  #log = '';
  #ended = false;

  private constructor(
    private readonly child: ChildProcess,
    private readonly url: string,
  ) {
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.#log += text;
    });
    child.once('close', () => {
      this.#ended = true;
    });
  }

  /**
   * Resolves once it answers.
   * @param target host and port of the server, whose /metrics it reads every half second
   * @param folder for its configuration and data
   */
  static async start(target: string, folder: string): Promise<Prometheus> {
    const scrape = { job_name: 'sluice', static_configs: [{ targets: [target] }] };
    const times = { scrape_interval: '500ms', scrape_timeout: '500ms' };
    // JSON is YAML.
    const config = join(folder, 'prometheus.yml');
    await writeFile(config, JSON.stringify({ global: times, scrape_configs: [scrape] }));
    const address = `127.0.0.1:${await freePort()}`;
    const storage = `--storage.tsdb.path=${join(folder, 'data')}`;
    const args = [`--config.file=${config}`, `--web.listen-address=${address}`, storage];
    const child = spawn(PROMETHEUS, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    await once(child, 'spawn');
    const prometheus = new Prometheus(child, `http://${address}`);
    await prometheus.until('it is ready', async () => (await fetch(`${prometheus.url}/-/ready`)).ok);
    return prometheus;
  }

  async stop(): Promise<void> {
    if (this.#ended) return;
    const closed = once(this.child, 'close');
    this.child.kill('SIGTERM');
    await closed;
  }

  /** What it says of its one target. */
  async target(): Promise<Json> {
    const answer: Json = await (await fetch(`${this.url}/api/v1/targets`)).json();
    return answer.data.activeTargets[0];
  }

  /** The value of a query that has exactly one; undefined where it has none. */
  async query(expression: string): Promise<number | undefined> {
    const response = await fetch(`${this.url}/api/v1/query?${new URLSearchParams({ query: expression })}`);
    const answer: Json = await response.json();
    if (answer.status !== 'success') throw new Error(`${expression}: ${answer.error}`);
    const { result } = answer.data;
    if (result.length > 1) throw new Error(`${expression} has ${result.length} values`);
    return result.length === 0 ? undefined : Number(result[0].value[1]);
  }

  /** Waits until a condition holds, for half a minute at most. */
  async until(what: string, condition: () => Promise<boolean>): Promise<void> {
    for (const start = performance.now(); performance.now() - start < 30_000; ) {
      if (this.#ended) break;
      if (await condition().catch(() => false)) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`Prometheus: waited in vain until ${what}\n${this.#log}`);
  }
}

/** What promtool has to say about an exposition: one line a complaint. Throws when it cannot read it. */
export function lint(exposition: string): string[] {
  const { status, stderr } = spawnSync(PROMTOOL, ['check', 'metrics'], { input: exposition, encoding: 'utf8' });
  if (status !== 0 && status !== 3) throw new Error(`promtool refuses the exposition: ${stderr}`);
  return stderr.split('\n').filter((line) => line !== '');
}

/** Checks a file of rules. Throws what promtool says when it is wrong. */
export function checkRules(file: string): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(PROMTOOL, ['check', 'rules', file], (error, stdout, stderr) => {
      if (error) reject(new Error(stderr || stdout));
      else resolve(stdout);
    });
  });
}
