/** The one implementation of `TextModel`: tables for tokens, Jinja for chats, a thread for long texts. */

import { ControlTokenGuard } from './chat/guard.js';
import type { ChatTemplates } from './chat/select.js';
import type { ChatTemplate } from './chat/template.js';
import { ByteDetokenizer } from './detokenizer.js';
import { EncoderThread } from './encoder-thread.js';
import {
  type ChatEncodeOptions,
  type ChatMessage,
  type ChatOptions,
  ChatTemplateError,
  type DecodeOptions,
  type Detokenizer,
  type EncodeOptions,
  type TextModel,
} from './text-model.js';
import type { Tokenizer } from './tokenizer/compile.js';
import { type EncodeRequest, Encoder } from './tokenizer/encoder.js';
import { bytesOfToken } from './tokenizer/tables.js';

/**
 * UTF-16 units encoded on this thread in one turn of the event loop, a few milliseconds; what is longer, or comes on
 * top, goes to the encoder thread.
 */
const UNITS_PER_TURN = 16_384;

export class LoadedTextModel implements TextModel {
  private readonly encoder: Encoder;
  private readonly thread: EncoderThread;
  private readonly guard: ControlTokenGuard;
  private unitsThisTurn = 0;
  private readonly utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

  constructor(
    private readonly tokenizer: Tokenizer,
    readonly vocabSize: number,
    private readonly templates: ChatTemplates | undefined,
  ) {
    this.encoder = new Encoder(tokenizer.encoder);
    this.thread = new EncoderThread(tokenizer.encoder);
    const specials = tokenizer.encoder.added.filter((token) => token.special);
    this.guard = new ControlTokenGuard(specials.map((token) => token.content));
  }

  get hasChatTemplate(): boolean {
    return this.templates !== undefined;
  }

  async encode(text: string, options: EncodeOptions): Promise<Int32Array> {
    return this.encodeRequest(text, options);
  }

  renderChat(messages: readonly ChatMessage[], options: ChatOptions): string {
    return this.template(options).render(messages, options);
  }

  async encodeChat(messages: readonly ChatMessage[], options: ChatOptions & ChatEncodeOptions): Promise<Int32Array> {
    const request = { addSpecialTokens: options.addSpecialTokens ?? false, parseSpecialTokens: true };
    const template = this.template(options);
    if (options.parseSpecialTokens === true) return this.encodeRequest(template.render(messages, options), request);
    const { text, guarded } = this.guard.render([messages, options.tools, options.variables], (guard) =>
      template.render(messages, options, guard),
    );
    return this.encodeRequest(text, { ...request, guarded });
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

  private async encodeRequest(text: string, request: EncodeRequest): Promise<Int32Array> {
    const units = text.length + 1;
    if (this.unitsThisTurn + units > UNITS_PER_TURN) return this.thread.encode(text, request);
    if (this.unitsThisTurn === 0) {
      setImmediate(() => {
        this.unitsThisTurn = 0;
      });
    }
    this.unitsThisTurn += units;
    return this.encoder.encode(text, request);
  }

  private template(options: ChatOptions): ChatTemplate {
    if (this.templates === undefined) throw new ChatTemplateError('the model has no chat template');
    return options.tools !== undefined && options.tools.length > 0 ? this.templates.withTools : this.templates.plain;
  }
}
