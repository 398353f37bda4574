/** The one implementation of `TextModel`: tables for tokens, Jinja for chats, a thread for long prompts. */

import type { ChatTemplateTexts } from './chat/select.js';
import { ByteDetokenizer } from './detokenizer.js';
import { EncoderThread } from './encoder-thread.js';
import { promptCost } from './prompt-cost.js';
import { type Prompt, PromptEncoder } from './prompt-encoder.js';
import type {
  ChatEncodeOptions,
  ChatMessage,
  ChatOptions,
  DecodeOptions,
  Detokenizer,
  EncodeOptions,
  TextModel,
} from './text-model.js';
import type { Tokenizer } from './tokenizer/compile.js';
import { bytesOfToken } from './tokenizer/tables.js';

/**
 * UTF-16 units encoded on this thread in one turn of the event loop, a few milliseconds; what is longer, or comes on
 * top, goes to the encoder thread.
 */
const UNITS_PER_TURN = 16_384;

export class LoadedTextModel implements TextModel {
  readonly hasChatTemplate: boolean;
  private readonly encoder: PromptEncoder;
  private readonly thread: EncoderThread;
  private unitsThisTurn = 0;
  private readonly utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

  constructor(
    private readonly tokenizer: Tokenizer,
    readonly vocabSize: number,
    templates: ChatTemplateTexts | undefined,
  ) {
    this.hasChatTemplate = templates !== undefined;
    const tables = { encoder: tokenizer.encoder, templates };
    this.encoder = new PromptEncoder(tables);
    this.thread = new EncoderThread(tables);
  }

  encode(text: string, options: EncodeOptions): Promise<Int32Array> {
    return this.encodePrompt({ kind: 'text', text, options });
  }

  renderChat(messages: readonly ChatMessage[], options: ChatOptions): string {
    return this.encoder.render(messages, options);
  }

  encodeChat(messages: readonly ChatMessage[], options: ChatOptions & ChatEncodeOptions): Promise<Int32Array> {
    return this.encodePrompt({ kind: 'chat', messages, options });
  }

  tokenBytes(token: number): Uint8Array {
    return bytesOfToken(this.tokenizer.tokenBytes, token);
  }

  isSpecial(token: number): boolean {
    return this.tokenizer.special[token] === 1;
  }

  tokenText(token: number): string {
    return this.utf8.decode(this.tokenBytes(token));
  }

  decode(tokens: Iterable<number>, options: DecodeOptions): string {
    const detokenizer = this.detokenizer(options);
    let text = '';
    for (const token of tokens) text += detokenizer.push(token);
    return text + detokenizer.flush();
  }

  detokenizer(options: DecodeOptions): Detokenizer {
    const { tokenBytes, special, dropsFirstSpace } = this.tokenizer;
    return new ByteDetokenizer({
      tokenBytes,
      skip: options.skipSpecialTokens ? special : undefined,
      dropFirstSpace: dropsFirstSpace && options.continuation !== true,
    });
  }

  private async encodePrompt(prompt: Prompt): Promise<Int32Array> {
    const room = UNITS_PER_TURN - this.unitsThisTurn;
    const cost = promptCost(prompt, room);
    if (cost > room) return this.thread.encode(prompt);
    if (this.unitsThisTurn === 0) {
      setImmediate(() => {
        this.unitsThisTurn = 0;
      });
    }
    this.unitsThisTurn += cost;
    const text = this.encoder.asText(prompt);
    // Some templates write far more than they are given.
    return text.text.length > UNITS_PER_TURN ? this.thread.encode(text) : this.encoder.encode(text);
  }
}
