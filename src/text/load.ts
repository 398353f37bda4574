/** Builds the `TextModel` of a checkpoint from its tokenizer and chat template. */
import type { TokenizerSource } from '../model/formats/checkpoint.js';
import { selectChatTemplates } from './chat/select.js';
import { LoadedTextModel } from './loaded-text-model.js';
import type { TextModel } from './text-model.js';
import { compileTokenizer } from './tokenizer/compile.js';
import { readGgufChatTemplates, readGgufTokenizer } from './tokenizer/gguf.js';

/**
 * `vocabSize` is the model's, the number of its logits; tokens beyond it are left out. Throws UserError, naming the
 * part of the tokenizer that is missing or not supported.
 */
export async function loadTextModel(source: TokenizerSource, vocabSize: number): Promise<TextModel> {
  if (source.kind === 'gguf') {
    const { tokenizer, config } = readGgufTokenizer(source.metadata);
    const templates = selectChatTemplates(
      { ...config, chat_template: readGgufChatTemplates(source.metadata) },
      undefined,
    );
    return new LoadedTextModel(compileTokenizer(tokenizer, config, vocabSize), vocabSize, templates);
  }
  const templates = selectChatTemplates(source.config, source.chatTemplate);
  return new LoadedTextModel(compileTokenizer(source.tokenizer, source.config, vocabSize), vocabSize, templates);
}
