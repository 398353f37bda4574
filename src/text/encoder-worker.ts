/** The encoder thread's side of `encoder-thread.ts`. */
import { parentPort, workerData } from 'node:worker_threads';
import type { EncodeJob, EncodeResult } from './encoder-thread.js';
import { PromptEncoder, type PromptTables } from './prompt-encoder.js';
import { ChatTemplateError } from './text-model.js';

const port = parentPort!;
const encoder = new PromptEncoder(workerData as PromptTables);

port.on('message', ({ id, prompt }: EncodeJob) => {
  try {
    const ids = encoder.encode(prompt);
    port.postMessage({ id, ids } satisfies EncodeResult, [ids.buffer]);
  } catch (error) {
    const ofTemplate = error instanceof ChatTemplateError;
    port.postMessage({ id, error: (error as Error).message, ofTemplate } satisfies EncodeResult);
  }
});
