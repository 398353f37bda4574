/** The encoder thread's side of `encoder-thread.ts`. */
import { parentPort, workerData } from 'node:worker_threads';
import type { EncodeJob, EncodeResult } from './encoder-thread.js';
import { Encoder } from './tokenizer/encoder.js';
import type { EncoderTables } from './tokenizer/tables.js';

const port = parentPort!;
const encoder = new Encoder(workerData as EncoderTables);

port.on('message', (job: EncodeJob) => {
  try {
    const ids = encoder.encode(job.text, job);
    port.postMessage({ id: job.id, ids } satisfies EncodeResult, [ids.buffer]);
  } catch (error) {
    port.postMessage({ id: job.id, error: (error as Error).message } satisfies EncodeResult);
  }
});
