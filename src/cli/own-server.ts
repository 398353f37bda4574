/** A `sluice serve` of one's own, for a load test that names no server. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { UserError } from '../errors.js';

export interface OwnServer {
  /** As in `http://127.0.0.1:40001`. */
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

const MAIN = fileURLToPath(new URL('./main.js', import.meta.url));
/** Lines of the server's log that are shown when it does not start. */
const LOG_LINES = 20;
const STOP_TIMEOUT_MS = 5000;

/**
 * Starts a server in a process of its own on any free port, and resolves when its model is loaded: it prints its address
 * only then.
 * @param options further options of `sluice serve`
 * @param main the file of the command line
 * @throws UserError with the end of its log when it ends instead
 */
export async function startOwnServer(options: readonly string[], main = MAIN): Promise<OwnServer> {
  const child = spawn(process.execPath, [main, 'serve', '--port', '0', ...options], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const killWithParent = (): void => {
    child.kill('SIGKILL');
  };
  process.once('exit', killWithParent);
  child.once('exit', () => process.removeListener('exit', killWithParent));

  const log: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => {
    log.push(line);
    if (log.length > LOG_LINES) log.shift();
  });
  const address = new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const found = /^\s*address\s+(http:\S+)/.exec(line);
      if (found) resolve(found[1]!);
    });
    child.once('error', reject);
    child.once('close', (code, signal) => {
      reject(new UserError(`the server did not start (exit code ${code ?? signal}):\n${log.join('\n')}`));
    });
  });
  return { url: await address, pid: child.pid!, stop: () => stop(child) };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const timeout = new AbortController();
  await Promise.race([exited, sleep(STOP_TIMEOUT_MS, undefined, { signal: timeout.signal }).catch(() => undefined)]);
  timeout.abort();
  if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
  await exited;
}
