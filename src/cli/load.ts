/** Opens a model for a command: the text side in this thread, the engine in its own. */
import { resolve } from 'node:path';
import type { EngineConfig } from '../engine/protocol.js';
import { openCheckpoint } from '../model/formats/open.js';
import type { ServedModel } from '../server/config.js';
import { loadTextModel } from '../text/load.js';
import type { TextModel } from '../text/text-model.js';

export interface OpenedModel {
  readonly text: TextModel;
  readonly model: ServedModel;
}

/** Reads headers and tokenizer. Throws UserError, so that a bad file is refused before anything else is started. */
export async function openModel(config: EngineConfig, id: string): Promise<OpenedModel> {
  const checkpoint = await openCheckpoint(resolve(config.model));
  try {
    const text = await loadTextModel(checkpoint.tokenizer, checkpoint.architecture.vocabSize);
    const created = Math.floor(Date.now() / 1000);
    return { text, model: { id, created, endTokens: checkpoint.endTokens, defaults: checkpoint.generation } };
  } finally {
    await checkpoint.close();
  }
}
