/** A growing list of token ids, reused from text to text. */
export class IdBuffer {
  private ids = new Int32Array(256);
  length = 0;

  push(id: number): void {
    if (this.length === this.ids.length) this.grow(this.length + 1);
    this.ids[this.length++] = id;
  }

  pushAll(ids: ArrayLike<number>): void {
    if (this.length + ids.length > this.ids.length) this.grow(this.length + ids.length);
    this.ids.set(ids, this.length);
    this.length += ids.length;
  }

  /** A copy of the ids from `start` on. */
  slice(start = 0): Int32Array<ArrayBuffer> {
    return this.ids.slice(start, this.length);
  }

  /** Forgets the ids, and gives back the memory of an unusually long text. */
  clear(): void {
    this.length = 0;
    if (this.ids.length > 1 << 16) this.ids = new Int32Array(256);
  }

  private grow(needed: number): void {
    const larger = new Int32Array(Math.max(needed, this.ids.length * 2));
    larger.set(this.ids.subarray(0, this.length));
    this.ids = larger;
  }
}
