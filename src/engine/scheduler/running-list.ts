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

  /** The youngest of the lowest priority: the first to be preempted. */
  get last(): Sequence | undefined {
    return this.#sequences.at(-1);
  }

  add(sequence: Sequence): void {
    this.#sequences.splice(this.#position(sequence), 0, sequence);
  }

  remove(sequence: Sequence): void {
    const index = this.#position(sequence);
    if (this.#sequences[index] !== sequence) throw new Error('the sequence does not run');
    this.#sequences.splice(index, 1);
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
