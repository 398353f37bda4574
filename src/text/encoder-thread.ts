/**
 * Encodes long texts on a thread of its own, so that the event loop stays free: a megabyte takes a good part of a
 * second. The thread starts with the first long text and keeps no process alive.
 */
import { Worker } from 'node:worker_threads';
import type { EncodeRequest } from './tokenizer/encoder.js';
import type { EncoderTables } from './tokenizer/tables.js';

export interface EncodeJob extends EncodeRequest {
  readonly id: number;
  readonly text: string;
}

export type EncodeResult = { readonly id: number } & (
  | { readonly ids: Int32Array<ArrayBuffer> }
  | { readonly error: string }
);

interface Waiting {
  readonly resolve: (ids: Int32Array) => void;
  readonly reject: (error: Error) => void;
}

/** Worker threads run compiled files only; from the sources (in tests) that is the last build's. */
const WORKER_FILE = new URL(
  import.meta.url.endsWith('.ts') ? '../../dist/text/encoder-worker.js' : './encoder-worker.js',
  import.meta.url,
);

export class EncoderThread {
  private worker: Worker | undefined;
  private readonly waiting = new Map<number, Waiting>();
  private lastId = 0;

  constructor(private readonly tables: EncoderTables) {}

  /** Texts are encoded in the order of the calls. Rejects when the thread dies; the next call starts a new one. */
  encode(text: string, request: EncodeRequest): Promise<Int32Array> {
    const worker = this.worker ?? this.start();
    const job: EncodeJob = { id: ++this.lastId, text, ...request };
    return new Promise((resolve, reject) => {
      this.waiting.set(job.id, { resolve, reject });
      worker.ref();
      worker.postMessage(job);
    });
  }

  private start(): Worker {
    const worker = new Worker(WORKER_FILE, { workerData: this.tables, name: 'encoder' });
    this.worker = worker;
    worker.on('message', (result: EncodeResult) => {
      const { resolve, reject } = this.waiting.get(result.id)!;
      this.waiting.delete(result.id);
      if (this.waiting.size === 0) worker.unref();
      if ('ids' in result) resolve(result.ids);
      else reject(new Error(result.error));
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
