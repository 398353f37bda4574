/** Sequences that hold blocks, in order of service. Few enough (`maxNumSeqs`) for an ordered array. */
import { compareSequences, type Sequence } from '../sequence.js';

export class RunningList {
  readonly #sequences: Sequence[] = [];

  get size(): number {
    return this.#sequences.length;
  }

  at(index: number): Sequence {
    return this.#sequences[index]!;
  }

  /**
   * The first to give way: of the lowest priority, of the user with most sequences running there, the youngest. The
   * oldest of all is it only when it is alone.
   */
  get victim(): Sequence | undefined {
    const last = this.#sequences.at(-1);
    let victim = last;
    for (let i = this.#sequences.length - 1; i >= 0; i--) {
      const sequence = this.#sequences[i]!;
      if (sequence.request.priority !== last!.request.priority) break;
      if (sequence.account!.running > victim!.account!.running) victim = sequence;
    }
    return victim;
  }

  add(sequence: Sequence): void {
    this.#sequences.splice(this.#position(sequence), 0, sequence);
    sequence.account!.running++;
  }

  remove(sequence: Sequence): void {
    const index = this.#position(sequence);
    if (this.#sequences[index] !== sequence) throw new Error('the sequence does not run');
    this.#sequences.splice(index, 1);
    sequence.account!.running--;
  }

  [Symbol.iterator](): Iterator<Sequence> {
    return this.#sequences[Symbol.iterator]();
  }

  /** Index of the sequence, or where it belongs. O(log n). */
  #position(sequence: Sequence): number {
    let low = 0;
    let high = this.#sequences.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compareSequences(this.#sequences[middle]!, sequence) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
