/** A binary heap whose items know where they lie, so that any of them can be taken out or moved. */

/** An item lies in one heap at a time; -1 when in none. */
export interface HeapItem {
  queueIndex: number;
}

export class IndexedHeap<T extends HeapItem> {
  readonly #items: T[] = [];
  readonly #compare: (a: T, b: T) => number;

  /** @param compare negative when a comes first; 0 for no two different items */
  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#items.length;
  }

  /** The first of all. O(1). */
  peek(): T | undefined {
    return this.#items[0];
  }

  /** O(log n). */
  push(item: T): void {
    this.#items.push(item);
    this.#place(item, this.#items.length - 1);
    this.#rise(item);
  }

  /** Takes an item out; nothing happens when it lies in no heap. O(log n). */
  remove(item: T): void {
    const index = item.queueIndex;
    if (index < 0) return;
    item.queueIndex = -1;
    const last = this.#items.pop()!;
    if (last === item) return;
    this.#place(last, index);
    this.update(last);
  }

  /** Finds an item's new place after what it is compared by has changed. O(log n). */
  update(item: T): void {
    this.#rise(item);
    this.#sink(item);
  }

  /** In no particular order. */
  [Symbol.iterator](): Iterator<T> {
    return this.#items[Symbol.iterator]();
  }

  #rise(item: T): void {
    while (item.queueIndex > 0) {
      const at = item.queueIndex;
      const parent = this.#items[(at - 1) >> 1]!;
      if (this.#compare(parent, item) < 0) return;
      this.#place(parent, at);
      this.#place(item, (at - 1) >> 1);
    }
  }

  #sink(item: T): void {
    for (;;) {
      const at = item.queueIndex;
      let child = this.#items[2 * at + 1];
      const right = this.#items[2 * at + 2];
      if (child !== undefined && right !== undefined && this.#compare(right, child) < 0) child = right;
      if (child === undefined || this.#compare(item, child) < 0) return;
      const below = child.queueIndex;
      this.#place(child, at);
      this.#place(item, below);
    }
  }

  #place(item: T, index: number): void {
    this.#items[index] = item;
    item.queueIndex = index;
  }
}
