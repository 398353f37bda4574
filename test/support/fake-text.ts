/**
 * A text model of bytes and a few words: every byte is a token, so characters spread over tokens as they do in real
 * vocabularies, and what each test expects can be worked out by hand.
 */
import {
  type ChatEncodeOptions,
  type ChatMessage,
  type ChatOptions,
  ChatTemplateError,
  type Detokenizer,
  type EncodeOptions,
  type TextModel,
} from '../../src/text/text-model.js';

/** A token of 6,000 characters, for answers that fill buffers. */
export const longWord = 'lorem '.repeat(1000);
const words = [longWord, ' one', ' two', ' three', ' four', 'one', 'Hello', ' world', 'halb🎉', ' a b', 'xy'];
const specials = ['<s>', '<|end|>', '<|turn|>'];
const firstWord = 256;
const firstSpecial = firstWord + words.length;

export const bos = firstSpecial;
export const end = firstSpecial + 1;
export const turn = firstSpecial + 2;
export const vocabSize = firstSpecial + specials.length;

const encoder = new TextEncoder();
const bytesOf: Uint8Array[] = [
  ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  ...words.map((word) => encoder.encode(word)),
  ...specials.map((special) => encoder.encode(special)),
];

/** Token of a word of the vocabulary. */
export function word(text: string): number {
  const index = words.indexOf(text);
  if (index < 0) throw new Error(`'${text}' is no word of the fake vocabulary`);
  return firstWord + index;
}

/** The bytes of a text, one token each. */
export function byteTokens(text: string): number[] {
  return [...encoder.encode(text)];
}

class FakeDetokenizer implements Detokenizer {
  private readonly decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  constructor(private readonly skipSpecialTokens: boolean) {}

  push(token: number): string {
    if (token >= firstSpecial && this.skipSpecialTokens) return '';
    return this.decoder.decode(bytesOf[token]!, { stream: true });
  }

  flush(): string {
    return this.decoder.decode();
  }
}

export class FakeText implements TextModel {
  readonly vocabSize = vocabSize;
  readonly hasChatTemplate = true;
  /** Options of the last chat that was encoded. */
  lastChat: (ChatOptions & ChatEncodeOptions & { messages: readonly ChatMessage[] }) | undefined;

  constructor(private readonly options: { readonly addBos?: boolean } = {}) {}

  encode(text: string, options: EncodeOptions): Promise<Int32Array> {
    const tokens: number[] = options.addSpecialTokens && this.options.addBos ? [bos] : [];
    for (let at = 0; at < text.length; ) {
      const special = options.parseSpecialTokens ? specials.findIndex((item) => text.startsWith(item, at)) : -1;
      if (special >= 0) {
        tokens.push(firstSpecial + special);
        at += specials[special]!.length;
        continue;
      }
      const known = words.findIndex((item) => text.startsWith(item, at));
      if (known >= 0) {
        tokens.push(firstWord + known);
        at += words[known]!.length;
        continue;
      }
      const character = String.fromCodePoint(text.codePointAt(at)!);
      tokens.push(...encoder.encode(character));
      at += character.length;
    }
    return Promise.resolve(Int32Array.from(tokens));
  }

  renderChat(messages: readonly ChatMessage[], options: ChatOptions): string {
    this.lastChat = { ...options, messages };
    if (messages.some((message) => message.content === 'raise')) throw new ChatTemplateError('the template says no');
    const text = messages.map(({ role, content }) => `<|turn|>${role}\n${content}<|end|>`).join('');
    return options.addGenerationPrompt ? `${text}<|turn|>assistant\n` : text;
  }

  async encodeChat(messages: readonly ChatMessage[], options: ChatOptions & ChatEncodeOptions): Promise<Int32Array> {
    const addSpecialTokens = options.addSpecialTokens ?? false;
    return this.encode(this.renderChat(messages, options), { addSpecialTokens, parseSpecialTokens: true });
  }

  tokenBytes(token: number): Uint8Array {
    return bytesOf[token] ?? new Uint8Array(0);
  }

  isSpecial(token: number): boolean {
    return token >= firstSpecial;
  }

  tokenText(token: number): string {
    return new TextDecoder().decode(this.tokenBytes(token));
  }

  decode(tokens: Iterable<number>, options: { readonly skipSpecialTokens: boolean }): string {
    const detokenizer = this.detokenizer(options);
    let text = '';
    for (const token of tokens) text += detokenizer.push(token);
    return text + detokenizer.flush();
  }

  detokenizer({ skipSpecialTokens }: { readonly skipSpecialTokens: boolean }): Detokenizer {
    return new FakeDetokenizer(skipSpecialTokens);
  }
}
