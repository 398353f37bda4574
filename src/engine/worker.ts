/** The engine's thread: loads the model, says when it is ready, runs the loop, and leaves nothing behind. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { UserError } from '../errors.js';
import { type LoadedModel, loadModel } from '../model/load.js';
import { EngineLoop } from './loop.js';
import { ThreadPort } from './port.js';
import type { EngineConfig } from './protocol.js';

/** The client asked for the end while the model was loading. */
class LoadingStopped extends Error {}

async function main(messagePort: MessagePort, config: EngineConfig): Promise<void> {
  const port = new ThreadPort(messagePort);
  try {
    const model = await loadModel(config, (phase, fraction) => {
      if (port.shutdownRequested) throw new LoadingStopped();
      port.send({ kind: 'progress', phase, fraction });
    });
    try {
      await serve(port, config, model);
    } finally {
      await model.runner.dispose();
    }
  } catch (error) {
    if (!(error instanceof LoadingStopped)) {
      const message = error instanceof Error ? error.message : String(error);
      port.send({ kind: 'failed', message, user: error instanceof UserError });
    }
  } finally {
    port.close();
  }
}

async function serve(port: ThreadPort, config: EngineConfig, model: LoadedModel): Promise<void> {
  const { runner, precision, kvCacheDtype, description, maxModelLen } = model;
  const loop = new EngineLoop(runner, port, { ...config, maxModelLen });
  port.send({
    kind: 'ready',
    info: {
      device: runner.device,
      deviceDescription: description,
      precision,
      vocabSize: runner.vocabSize,
      maxModelLen,
      blockSize: runner.blockSize,
      numBlocks: runner.numBlocks,
      kvCacheBytes: runner.kvCacheBytes,
      kvCacheDtype,
      mixedSteps: loop.mixedSteps,
    },
  });
  await loop.run();
}

if (parentPort === null) throw new Error('this module runs in a worker thread only');
await main(parentPort, workerData as EngineConfig);
