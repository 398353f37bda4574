/**
 * Random numbers as a function of a counter: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011). There is no state to carry, so a token's draw depends on nothing but where it stands.
 */

const MULTIPLIER_0 = 0xd2511f53;
const MULTIPLIER_1 = 0xcd9e8d57;
const KEY_STEP_0 = 0x9e3779b9;
const KEY_STEP_1 = 0xbb67ae85;
const ROUNDS = 10;

/** Encrypts `block`, four unsigned 32-bit words, in place. */
export function philox4x32(block: Uint32Array, key0: number, key1: number): void {
  for (let round = 0; round < ROUNDS; round++) {
    const [c0, c1, c2, c3] = [block[0]!, block[1]!, block[2]!, block[3]!];
    block[0] = highProduct(MULTIPLIER_1, c2) ^ c1 ^ key0;
    block[1] = Math.imul(MULTIPLIER_1, c2);
    block[2] = highProduct(MULTIPLIER_0, c0) ^ c3 ^ key1;
    block[3] = Math.imul(MULTIPLIER_0, c0);
    key0 = (key0 + KEY_STEP_0) >>> 0;
    key1 = (key1 + KEY_STEP_1) >>> 0;
  }
}

const block = new Uint32Array(4);

/**
 * A number from [0, 1), uniform, 53 bits.
 * @param seed a safe integer
 * @param position of the token that is drawn, in its sequence
 */
export function uniform(seed: number, choice: number, position: number): number {
  block[0] = position;
  block[1] = choice;
  block[2] = 0;
  block[3] = 0;
  philox4x32(block, seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0);
  return ((block[0] >>> 5) * 2 ** 26 + (block[1] >>> 6)) / 2 ** 53;
}

/** The upper 32 bits of the 64-bit product of two unsigned 32-bit numbers. */
function highProduct(a: number, b: number): number {
  const [aLow, aHigh, bLow, bHigh] = [a & 0xffff, a >>> 16, b & 0xffff, b >>> 16];
  const middle = aHigh * bLow + ((aLow * bLow) >>> 16);
  const carry = (aLow * bHigh + (middle & 0xffff)) >>> 16;
  return aHigh * bHigh + (middle >>> 16) + carry;
}
