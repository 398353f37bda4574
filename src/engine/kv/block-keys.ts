/**
 * Names of full blocks by what they hold: a 256-bit hash of the block's tokens and of the name of the block before it, so
 * that a name stands for everything from the sequence's start.
 */
import { hash } from 'node:crypto';

/** SHA-256 in base64. */
export type BlockKey = string;

/** @param tokens those of one block */
export type HashBlock = (parent: BlockKey, tokens: Int32Array) => BlockKey;

/** The key before the first block: prompts of other models or other salts share nothing. */
export function rootKey(model: string, salt: string): BlockKey {
  return hash('sha256', `${model.length}:${model}${salt}`, 'base64');
}

/** SHA-256 over parent and tokens, in buffers that are kept. About 1.5 µs for a block of 32 tokens. */
export function sha256Blocks(blockSize: number): HashBlock {
  const parentLength = rootKey('', '').length;
  const input = Buffer.alloc(parentLength + blockSize * Int32Array.BYTES_PER_ELEMENT);
  const slots = new Int32Array(input.buffer, input.byteOffset + parentLength, blockSize);
  return (parent, tokens) => {
    input.write(parent, 'latin1');
    slots.set(tokens);
    return hash('sha256', input, 'base64');
  };
}
