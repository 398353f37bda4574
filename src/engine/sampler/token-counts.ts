/** How often each token occurs in a sequence: what penalties are about. Kept up as the sequence grows. */
import type { TokenId } from '../protocol.js';
import type { Sequence } from '../sequence.js';

export class TokenCounts {
  readonly #indexes = new Map<TokenId, number>();
  #ids = new Int32Array(64);
  #generated = new Int32Array(64);
  #seen: number;

  /** @param withPrompt whether tokens that occur only in the prompt are listed too */
  constructor(sequence: Sequence, withPrompt: boolean) {
    this.#seen = withPrompt ? 0 : sequence.promptLength;
  }

  /** Different tokens. */
  get size(): number {
    return this.#indexes.size;
  }

  id(index: number): TokenId {
    return this.#ids[index]!;
  }

  /** Occurrences among the generated tokens; 0 for one of the prompt alone. */
  generated(index: number): number {
    return this.#generated[index]!;
  }

  /** Counts the tokens that came since the last call. */
  update(sequence: Sequence): void {
    for (; this.#seen < sequence.length; this.#seen++) {
      const index = this.#index(sequence.token(this.#seen));
      if (this.#seen >= sequence.promptLength) this.#generated[index]!++;
    }
  }

  #index(token: TokenId): number {
    const known = this.#indexes.get(token);
    if (known !== undefined) return known;
    const index = this.#indexes.size;
    if (index === this.#ids.length) {
      this.#ids = doubled(this.#ids);
      this.#generated = doubled(this.#generated);
    }
    this.#indexes.set(token, index);
    this.#ids[index] = token;
    return index;
  }
}

function doubled(array: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(array.length * 2);
  larger.set(array);
  return larger;
}
