/** The command as people start and stop it: a process of its own, on a tiny model. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { eventData, type Json } from '../support/server.js';

const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const tinyLlama = fileURLToPath(new URL('../fixtures/models/tiny-llama', import.meta.url));

class Command {
  readonly child: ChildProcessWithoutNullStreams;
  stdout = '';
  stderr = '';
  readonly exit: Promise<number | null>;

  constructor(args: string[], env: Record<string, string> = {}) {
    this.child = spawn(process.execPath, [main, ...args], { cwd: tmpdir(), env: { ...process.env, ...env } });
    this.child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
    });
    this.child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    this.exit = once(this.child, 'close').then(([code]) => code as number | null);
  }

  /** The address it tells once it is ready. */
  async address(): Promise<string> {
    for (;;) {
      const url = /^ {2}address +(\S+)$/m.exec(this.stdout)?.[1];
      if (url !== undefined && this.stdout.includes('curl')) return url;
      if (this.child.exitCode !== null) throw new Error(`ended with ${this.child.exitCode}: ${this.stderr}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

const commands: Command[] = [];
function run(args: string[], env: Record<string, string> = {}): Command {
  const command = new Command(args, env);
  commands.push(command);
  return command;
}
function serve(...args: string[]): Command {
  return run(['serve', '--model', tinyLlama, '--kv-cache-memory', '8MiB', '--port', '0', ...args]);
}
afterEach(async () => {
  for (const { child } of commands) if (child.exitCode === null) child.kill('SIGKILL');
  await Promise.all(commands.splice(0).map(({ exit }) => exit));
});

function post(url: string, body: object): Promise<Response> {
  return fetch(`${url}/v1/completions`, { method: 'POST', body: JSON.stringify(body) });
}

describe('sluice serve', () => {
  it('tells address, model, device, cache and how to try it, and answers', async () => {
    const command = serve('--served-model-name', 'tiny');
    const url = await command.address();
    expect(command.stdout).toMatch(/^ {2}model +tiny \(/m);
    expect(command.stdout).toMatch(/^ {2}device +cpu: /m);
    expect(command.stdout).toMatch(/^ {2}cache +\S+ MiB of float32 in \d+ blocks of 32 tokens/m);
    expect(command.stdout).toContain(`curl -N ${url}/v1/chat/completions`);
    const health: Json = await (await fetch(`${url}/health`)).json();
    expect(health).toMatchObject({ status: 'ok', model: 'tiny', device: 'cpu' });
    const body = { prompt: [5, 6, 7], max_tokens: 5, ignore_eos: true, temperature: 0, return_token_ids: true };
    const whole: Json = await (await post(url, body)).json();
    expect(whole.choices[0].token_ids).toHaveLength(5);
    const data = eventData(await (await post(url, { ...body, stream: true })).text());
    const ids = data.slice(0, -1).flatMap((json) => JSON.parse(json).choices[0].token_ids);
    expect(ids).toEqual(whole.choices[0].token_ids);
    command.child.kill('SIGTERM');
    expect(await command.exit).toBe(0);
    const lines = command.stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Json);
    const request = lines.find((line) => line.msg === 'POST /v1/completions');
    expect(request).toMatchObject({ status: 200, prompt_tokens: 3, completion_tokens: 5, finish: 'length' });
  });

  it('ends quickly with an idle connection, and by SIGINT, too (case 75)', async () => {
    const command = serve();
    const url = await command.address();
    const agent = new http.Agent({ keepAlive: true });
    const [response] = (await once(http.get(`${url}/health`, { agent }), 'response')) as [http.IncomingMessage];
    response.resume();
    await once(response, 'end');
    const before = performance.now();
    command.child.kill('SIGINT');
    expect(await command.exit).toBe(0);
    expect(performance.now() - before).toBeLessThan(2000);
    agent.destroy();
  });

  it('lets a running stream end before it does (case 32, dynamo#791)', async () => {
    const command = serve();
    const url = await command.address();
    const response = await post(url, { prompt: [5, 6, 7], max_tokens: 100, ignore_eos: true, stream: true });
    command.child.kill('SIGTERM');
    const data = eventData(await response.text());
    expect(data.at(-1)).toBe('[DONE]');
    expect(JSON.parse(data.at(-2)!).choices[0].finish_reason).toBe('length');
    expect(await command.exit).toBe(0);
  });

  it('can be ended while it loads', async () => {
    const command = serve();
    await new Promise((resolve) => setTimeout(resolve, 700));
    command.child.kill('SIGTERM');
    const code = await command.exit;
    // Before its signal handlers are there, the signal itself ends it.
    expect([0, null]).toContain(code);
  });

  it('says in one line that a port is taken', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as { port: number };
    const command = serve('--port', String(port));
    expect(await command.exit).toBe(1);
    expect(command.stderr).toBe(
      `sluice: Port ${port} on 127.0.0.1 is in use. Choose another with --port, or stop what listens there.\n`,
    );
    taken.close();
  });

  it('says in one line what is wrong with a model', async () => {
    const missing = run(['serve', '--model', '/nowhere/model.gguf']);
    expect(await missing.exit).toBe(1);
    expect(missing.stderr).toMatch(/^sluice: \/nowhere\/model\.gguf: .+\n$/);
    const wrong = run(['serve', '--model', main]);
    expect(await wrong.exit).toBe(1);
    expect(wrong.stderr).toMatch(/^sluice: .*main\.js: .+\n$/);
  });

  it('refuses options it cannot read', async () => {
    const command = run(['serve'], { SLUICE_PORT: 'http' });
    expect(await command.exit).toBe(1);
    expect(command.stderr).toContain("error: option '--port <n>' value 'http' from env 'SLUICE_PORT' is invalid");
  });
});

describe('sluice generate', () => {
  const model = ['--model', tinyLlama, '--kv-cache-memory', '8MiB'];

  it('streams an answer to its output', async () => {
    const args = ['generate', 'Hello', '--raw', '--temperature', '0', '--max-tokens', '8', ...model];
    const one = run(args);
    expect(await one.exit).toBe(0);
    expect(one.stderr).toBe('');
    expect(one.stdout.length).toBeGreaterThan(1);
    expect(one.stdout.endsWith('\n')).toBe(true);
    const two = run(args);
    await two.exit;
    expect(two.stdout).toBe(one.stdout);
  });

  it('says in one line what is wrong', async () => {
    const command = run(['generate', 'Hello there', '--raw', '--max-model-len', '2', ...model]);
    expect(await command.exit).toBe(1);
    expect(command.stderr).toMatch(/^sluice: The prompt has \d+ tokens; the model's context holds 2\.\n$/);
  });
});

describe('sluice', () => {
  it('shows help with defaults and environment variables', async () => {
    const command = run(['serve', '--help']);
    expect(await command.exit).toBe(0);
    for (const text of [
      '--kv-cache-memory <size>',
      'default: 512MiB, env:',
      'SLUICE_KV_CACHE_MEMORY',
      'Batching and cache:',
    ]) {
      expect(command.stdout).toContain(text);
    }
  });

  it('knows its version', async () => {
    const command = run(['--version']);
    await command.exit;
    expect(command.stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});
