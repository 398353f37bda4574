/**
 * Encodes long prompts on a thread of its own, so that the event loop stays free: a megabyte takes a good part of a
 * second. The thread starts with the first long prompt and keeps no process alive.
 */
import { Worker } from 'node:worker_threads';
import { compiledScript } from '../compiled.js';
import type { Prompt, PromptTables } from './prompt-encoder.js';
import { ChatTemplateError } from './text-model.js';

export interface EncodeJob {
  readonly id: number;
  readonly prompt: Prompt;
}

export type EncodeResult = { readonly id: number } & (
  | { readonly ids: Int32Array<ArrayBuffer> }
  /** `ofTemplate`: the error was a ChatTemplateError. */
  | { readonly error: string; readonly ofTemplate: boolean }
);

interface Waiting {
  readonly resolve: (ids: Int32Array) => void;
  readonly reject: (error: Error) => void;
}

export class EncoderThread {
  private worker: Worker | undefined;
  private readonly waiting = new Map<number, Waiting>();
  private lastId = 0;

  constructor(private readonly tables: PromptTables) {}

  /**
   * Prompts are encoded in the order of the calls. Rejects with ChatTemplateError where the template refuses a chat, and
   * when the thread dies; the next call starts a new one.
   */
  encode(prompt: Prompt): Promise<Int32Array> {
    const worker = this.worker ?? this.start();
    const job: EncodeJob = { id: ++this.lastId, prompt };
    return new Promise((resolve, reject) => {
      this.waiting.set(job.id, { resolve, reject });
      worker.ref();
      worker.postMessage(job);
    });
  }

  private start(): Worker {
    const worker = new Worker(compiledScript('./encoder-worker.js', import.meta.url), {
      workerData: this.tables,
      name: 'encoder',
    });
    this.worker = worker;
    worker.on('message', (result: EncodeResult) => {
      const { resolve, reject } = this.waiting.get(result.id)!;
      this.waiting.delete(result.id);
      if (this.waiting.size === 0) worker.unref();
      if ('ids' in result) resolve(result.ids);
      else reject(result.ofTemplate ? new ChatTemplateError(result.error) : new Error(result.error));
    });
    worker.on('error', (error: Error) => this.fail(worker, error));
    worker.on('exit', () => this.fail(worker, new Error('the encoder thread ended')));
    return worker;
  }

  private fail(worker: Worker, error: Error): void {
    if (this.worker !== worker) return;
    this.worker = undefined;
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
  }
}
