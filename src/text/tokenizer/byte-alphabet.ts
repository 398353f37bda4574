/**
 * The alphabet in which byte-level BPE vocabularies write bytes: every byte is one printable character, so that a
 * token is a plain string. From OpenAI's GPT-2 encoder.py, bytes_to_unicode.
 */

const CHAR_OF_BYTE: readonly string[] = buildAlphabet();
const BYTE_OF_CHAR: ReadonlyMap<string, number> = new Map(CHAR_OF_BYTE.map((char, byte) => [char, byte]));

function buildAlphabet(): string[] {
  const chars: string[] = [];
  let shifted = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    chars.push(String.fromCharCode(printable ? byte : shifted++));
  }
  return chars;
}

/** The character that stands for a byte. */
export function charOfByte(byte: number): string {
  return CHAR_OF_BYTE[byte & 0xff]!;
}

/** The bytes a vocabulary entry stands for; undefined when a character of it is not of the alphabet. */
export function bytesOfAlphabet(token: string): Uint8Array | undefined {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = BYTE_OF_CHAR.get(token[i]!);
    if (byte === undefined) return undefined;
    bytes[i] = byte;
  }
  return bytes;
}
