/** A driver's process: starts it, hands it work, and measures what the machine did meanwhile. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { type CpuUse, cpuTimes, groupSeconds, residentMemory } from './machine.js';
import type { DriverMessage, RunRequest, RunResult } from './protocol.js';

export interface DriverCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export interface MeasuredRun extends RunResult {
  readonly cpu: CpuUse;
}

const LOG_LINES = 40;

export class DriverProcess {
  readonly #child: ChildProcess;
  readonly #log: string[] = [];
  readonly #messages: DriverMessage[] = [];
  #wake: (() => void) | undefined;
  #ended: string | undefined;

  private constructor(
    readonly name: string,
    { command, args, env }: DriverCommand,
  ) {
    // A group of its own, so that processes it starts are counted, and ended, with it.
    const child = spawn(command, args, {
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
      detached: true,
    });
    this.#child = child;
    process.once('exit', this.#kill);
    for (const stream of [child.stdout!, child.stderr!]) {
      createInterface({ input: stream }).on('line', (line) => {
        this.#log.push(line);
        if (this.#log.length > LOG_LINES) this.#log.shift();
      });
    }
    createInterface({ input: child.stdio[3] as Readable }).on('line', (line) => {
      this.#messages.push(JSON.parse(line) as DriverMessage);
      this.#wake?.();
    });
    child.on('error', (error) => this.#end(error.message));
    child.on('close', (code, signal) => this.#end(`ended with ${signal ?? `code ${code}`}`));
    // A driver that is gone is noticed by its end.
    (child.stdin as Writable).on('error', () => {});
  }

  /** Resolves when the model is loaded. Throws with the end of the driver's log when it cannot be. */
  static async start(
    name: string,
    command: DriverCommand,
  ): Promise<{ driver: DriverProcess; description: string; url?: string }> {
    const driver = new DriverProcess(name, command);
    try {
      const message = await driver.#next();
      if (message.kind !== 'ready') throw new Error(`${name} sent ${message.kind} instead of ready`);
      return { driver, ...message };
    } catch (error) {
      driver.#kill();
      throw error;
    }
  }

  async run(request: RunRequest): Promise<MeasuredRun> {
    const before = cpuTimes();
    const own = groupSeconds(this.#child.pid!);
    this.#child.stdin!.write(`${JSON.stringify(request)}\n`);
    const message = await this.#next();
    const after = cpuTimes();
    const used = groupSeconds(this.#child.pid!) - own;
    if (message.kind === 'error') throw new Error(`${this.name}: ${message.message}`);
    if (message.kind !== 'result') throw new Error(`${this.name} sent ${message.kind} instead of a result`);
    const cpu = {
      own: used,
      others: Math.max(0, after.busy - before.busy - used),
      stolen: after.stolen - before.stolen,
      wall: after.wall - before.wall,
    };
    return { tokens: message.tokens, times: message.times, cpu };
  }

  /** Resident memory, in bytes, of the process with those it started. */
  get memory(): number {
    return residentMemory(this.#child.pid!);
  }

  async stop(): Promise<void> {
    if (this.#ended !== undefined) return;
    const closed = new Promise((resolve) => this.#child.once('close', resolve));
    this.#child.stdin!.end();
    const timer = setTimeout(this.#kill, 10_000);
    await closed;
    clearTimeout(timer);
    this.#kill();
  }

  async #next(): Promise<DriverMessage> {
    for (;;) {
      const message = this.#messages.shift();
      if (message !== undefined) return message;
      if (this.#ended !== undefined) throw new Error(`${this.name} ${this.#ended}:\n${this.#log.join('\n')}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #end(reason: string): void {
    this.#ended ??= reason;
    process.removeListener('exit', this.#kill);
    this.#wake?.();
  }

  readonly #kill = (): void => {
    try {
      if (this.#child.pid !== undefined) process.kill(-this.#child.pid, 'SIGKILL');
    } catch {
      // The group is gone already.
    }
  };
}
