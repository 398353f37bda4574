/** The loop's end of the line to the client: an inbox that is read without waiting, and a place to park while idle. */
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { CommandBatch, WorkerMessage } from './protocol.js';

export interface EnginePort {
  /** The next batch that has arrived, or undefined; never waits. */
  receive(): CommandBatch | undefined;
  /** Resolves once there is something to receive, or after `timeout` seconds. */
  wait(timeout?: number): Promise<void>;
  send(message: WorkerMessage): void;
}

/** An EnginePort over a worker's MessagePort. */
export class ThreadPort implements EnginePort {
  readonly #port: MessagePort;
  readonly #inbox: CommandBatch[] = [];
  #wake: (() => void) | undefined;

  constructor(port: MessagePort) {
    this.#port = port;
    port.on('message', (batch: CommandBatch) => {
      this.#inbox.push(batch);
      this.#wake?.();
    });
  }

  /** Whether the client has asked for the end, in what has arrived so far. */
  get shutdownRequested(): boolean {
    for (let batch = this.#take(); batch !== undefined; batch = this.#take()) this.#inbox.push(batch);
    return this.#inbox.some(({ commands }) => commands.some(({ kind }) => kind === 'shutdown'));
  }

  receive(): CommandBatch | undefined {
    return this.#inbox.shift() ?? this.#take();
  }

  wait(timeout?: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.#inbox.length > 0) {
        resolve();
        return;
      }
      const timer = timeout === undefined ? undefined : setTimeout(() => this.#wake?.(), Math.min(timeout, 60) * 1000);
      this.#wake = () => {
        this.#wake = undefined;
        clearTimeout(timer);
        resolve();
      };
    });
  }

  send(message: WorkerMessage): void {
    this.#port.postMessage(message);
  }

  close(): void {
    this.#port.close();
  }

  /** Takes a message straight off the port, while the event loop has no time to deliver it. */
  #take(): CommandBatch | undefined {
    return receiveMessageOnPort(this.#port)?.message as CommandBatch | undefined;
  }
}
