/** Sequences that wait for admission, the next one first: a binary heap that knows where each of them lies. */
import { compareSequences, type Sequence } from '../sequence.js';

export class WaitingQueue {
  readonly #heap: Sequence[] = [];

  get size(): number {
    return this.#heap.length;
  }

  /** The sequence to admit next. O(1). */
  peek(): Sequence | undefined {
    return this.#heap[0];
  }

  /** O(log n). */
  push(sequence: Sequence): void {
    this.#heap.push(sequence);
    this.#place(sequence, this.#heap.length - 1);
    this.#rise(sequence);
  }

  /** Takes a sequence out, wherever it lies; nothing happens when it does not wait. O(log n). */
  remove(sequence: Sequence): void {
    const index = sequence.queueIndex;
    if (index < 0) return;
    sequence.queueIndex = -1;
    const last = this.#heap.pop()!;
    if (last === sequence) return;
    this.#place(last, index);
    this.#rise(last);
    this.#sink(last);
  }

  /** In no particular order. */
  [Symbol.iterator](): Iterator<Sequence> {
    return this.#heap[Symbol.iterator]();
  }

  #rise(sequence: Sequence): void {
    while (sequence.queueIndex > 0) {
      const at = sequence.queueIndex;
      const parent = this.#heap[(at - 1) >> 1]!;
      if (compareSequences(parent, sequence) < 0) return;
      this.#place(parent, at);
      this.#place(sequence, (at - 1) >> 1);
    }
  }

  #sink(sequence: Sequence): void {
    for (;;) {
      const at = sequence.queueIndex;
      let child = this.#heap[2 * at + 1];
      const right = this.#heap[2 * at + 2];
      if (child !== undefined && right !== undefined && compareSequences(right, child) < 0) child = right;
      if (child === undefined || compareSequences(sequence, child) < 0) return;
      const below = child.queueIndex;
      this.#place(child, at);
      this.#place(sequence, below);
    }
  }

  #place(sequence: Sequence, index: number): void {
    this.#heap[index] = sequence;
    sequence.queueIndex = index;
  }
}
