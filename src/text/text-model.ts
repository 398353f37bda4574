/**
 * The seam between text and tokens: what the server needs from a tokenizer and chat template. It knows nothing of
 * batches or of the engine.
 */

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
  /** Further keys (name, tool_calls, ...) are handed to the template as they are. */
  readonly [key: string]: unknown;
}

export interface ChatOptions {
  /** Append the header of an assistant turn; default true. */
  readonly addGenerationPrompt: boolean;
  /** Leave the last message open, to be continued; default false. */
  readonly continueFinalMessage: boolean;
  readonly tools?: readonly unknown[];
  /** Variables for the template (chat_template_kwargs). */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** A template that is missing, throws or needs what is not there; the message is for the caller (400). */
export class ChatTemplateError extends Error {
  override readonly name = 'ChatTemplateError';
}

export interface EncodeOptions {
  /** Add BOS (and the like) where the tokenizer does. */
  readonly addSpecialTokens: boolean;
  /** Turn the text of special tokens such as <|im_end|> into their ids; otherwise it is plain text. */
  readonly parseSpecialTokens: boolean;
}

/** How a rendered chat is encoded. */
export interface ChatEncodeOptions {
  /** Add BOS (and the like) where the tokenizer does; default false, since templates write it themselves. */
  readonly addSpecialTokens?: boolean;
  /** Text inside messages becomes control tokens where it reads like them; default false: never. */
  readonly parseSpecialTokens?: boolean;
}

export interface DecodeOptions {
  /** Leave control tokens out. */
  readonly skipSpecialTokens: boolean;
  /**
   * The tokens continue an earlier text, as an answer continues its prompt: a space at their start is text. Otherwise
   * the space that SentencePiece tokenizers put before every text is dropped again. Default false.
   */
  readonly continuation?: boolean;
}

export interface TextModel {
  readonly vocabSize: number;
  readonly hasChatTemplate: boolean;
  /** Asynchronous because long texts are encoded off the event loop. */
  encode(text: string, options: EncodeOptions): Promise<Int32Array>;
  /** Renders messages with the chat template. Throws ChatTemplateError. */
  renderChat(messages: readonly ChatMessage[], options: ChatOptions): string;
  /** Renders and encodes messages. Throws ChatTemplateError. */
  encodeChat(messages: readonly ChatMessage[], options: ChatOptions & ChatEncodeOptions): Promise<Int32Array>;
  /** Bytes that a token stands for; empty for ids without text. O(1). */
  tokenBytes(token: number): Uint8Array;
  /** Whether the token is a control token, left out of answers by default. */
  isSpecial(token: number): boolean;
  /** The token as the vocabulary writes it, bytes decoded as UTF-8 with replacement; for logprobs and people. */
  tokenText(token: number): string;
  /** Text of a whole token sequence; equals the joined pieces of a `Detokenizer`. */
  decode(tokens: Iterable<number>, options: DecodeOptions): string;
  /** A fresh incremental detokenizer for one answer. */
  detokenizer(options: DecodeOptions): Detokenizer;
}

/** Turns a stream of tokens into text that ends on whole characters. Linear in the length of the answer. */
export interface Detokenizer {
  /** Text that became complete with this token; '' while a character is still open. */
  push(token: number): string;
  /** What is still held back, with incomplete bytes replaced; call once, at the end. */
  flush(): string;
}
