import { join } from 'node:path';
import { expect, it } from 'vitest';
import { CachePool } from '../../../src/model/backends/cpu/pool.js';
import { ThreadReplica } from '../../../src/model/backends/cpu/replica-client.js';
import { openCheckpoint } from '../../../src/model/formats/open.js';
import { RunnerLostError, type StepBatch } from '../../../src/model/runner.js';
import { TINY_MODELS } from '../../support/model-directory.js';

const checkpoint = await openCheckpoint(join(TINY_MODELS, 'tiny-llama'));
const { architecture } = checkpoint;
await checkpoint.close();
const pool = new CachePool({ layers: 1, kvHeads: 1, headSize: 8, blockSize: 16, numBlocks: 4, type: 'float32' });
const batch: StepBatch = {
  tokens: Int32Array.of(1),
  cumulativeLengths: Int32Array.of(0, 1),
  pastLengths: Int32Array.of(0),
  blockTables: Int32Array.of(0),
  maxBlocks: 1,
  logitRows: Int32Array.of(0),
};

const replicaOf = (modelFile: string, script?: string) =>
  new ThreadReplica(
    modelFile,
    architecture,
    pool,
    1,
    script === undefined ? undefined : new URL(`data:text/javascript,${encodeURIComponent(script)}`),
  );

it('tells why it cannot load its model, and ends', async () => {
  const replica = replicaOf('/nowhere/model.onnx');
  await expect(replica.ready()).rejects.toThrow(/nowhere/);
  await replica.dispose();
});

const READY = "import { parentPort } from 'node:worker_threads'; parentPort.postMessage({ kind: 'ready' });";

it.each([
  { way: 'ends', script: `${READY} parentPort.once('message', () => process.exit(3));`, reason: /ended with code 3/ },
  { way: 'throws', script: `${READY} parentPort.once('message', () => { throw new Error('gone'); });`, reason: /gone/ },
])('is lost for good when its thread $way', async ({ script, reason }) => {
  const replica = replicaOf('', script);
  await replica.ready();
  for (let step = 0; step < 2; step++) {
    const failure = await replica.run(batch).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(RunnerLostError);
    expect(String(failure)).toMatch(reason);
  }
  await replica.dispose();
});

it('ends while it loads', async () => {
  await replicaOf('/nowhere/model.onnx').dispose();
});

it('waits for its session with the first step, and tells there too why there is none', async () => {
  const replica = replicaOf('/nowhere/model.onnx');
  await expect(replica.run(batch)).rejects.toThrow(/nowhere/);
  await replica.dispose();
});

it('sees the memory of the pool it was started with', async () => {
  pool.keys[0]![3] = 42;
  const echo = `import { parentPort, workerData } from 'node:worker_threads';
    const seen = new Float32Array(workerData.memory)[3];
    new Float32Array(workerData.memory)[4] = seen + 1;
    parentPort.postMessage({ kind: 'ready' });`;
  await replicaOf('', echo).ready();
  expect(pool.keys[0]![4]).toBe(43);
});
