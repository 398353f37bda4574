/** The thread of a replica: computes one share of a step after another. */
import { parentPort, workerData } from 'node:worker_threads';
import type { StepLogits } from '../../runner.js';
import { CachePool } from './pool.js';
import { LocalReplica } from './replica.js';
import type { ReplicaCommand, ReplicaData, ReplicaMessage } from './replica-client.js';

/** The arrays that are large enough to be handed over instead of copied. */
function buffersOf({ values, summaries }: StepLogits): ArrayBuffer[] {
  const arrays = [values, summaries?.maxima, summaries?.masses];
  return arrays.flatMap((array) => (array && array.length > 0 ? [array.buffer as ArrayBuffer] : []));
}

if (parentPort === null) throw new Error('this module runs in a worker thread only');
const port = parentPort;
const send = (message: ReplicaMessage, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer);
const reasonOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

const { modelFile, architecture, shape, memory, threads } = workerData as ReplicaData;
/** Set when the thread is to end, which it may be while it loads. */
let ending = false;
let replica: LocalReplica | undefined;
async function end(): Promise<void> {
  port.close();
  await replica?.dispose();
}
port.on('message', async (batch: ReplicaCommand) => {
  if (batch === undefined) {
    ending = true;
    await end();
    return;
  }
  try {
    if (replica === undefined) throw new Error('a replica was given a step before it was ready');
    const logits = await replica.run(batch);
    send({ kind: 'computed', logits }, buffersOf(logits));
  } catch (error) {
    send({ kind: 'failed', message: reasonOf(error) });
  }
});
try {
  replica = await LocalReplica.create(modelFile, architecture, new CachePool(shape, memory), threads, false);
  if (ending) await end();
  else send({ kind: 'ready' });
} catch (error) {
  send({ kind: 'failed', message: reasonOf(error) });
}
