/**
 * Reads the primitive values of a GGUF header one after another. Whether a value lies within the file is checked before
 * it is read, and before memory is taken for it.
 */
import { LoadError } from '../../../errors.js';
import type { BinaryFile } from '../binary-file.js';

const WINDOW_BYTES = 1 << 20;
const MAX_TEXT_BYTES = 1 << 26;

export class Cursor {
  /** A part of the file in memory; `start` and `end` are its place there. */
  private readonly window: Buffer;
  private readonly view: DataView;
  private start = 0;
  private end = 0;
  private at = 0;

  constructor(readonly file: BinaryFile) {
    this.window = Buffer.from(new ArrayBuffer(Math.min(WINDOW_BYTES, file.size)));
    this.view = new DataView(this.window.buffer);
  }

  /** Where the next value begins, from the file's start. */
  get position(): number {
    return this.at;
  }

  /** Whether the next `count` bytes can be read without waiting. */
  holds(count: number): boolean {
    return this.at + count <= this.end;
  }

  /** Makes `holds(count)` true for a `count` up to the window's size; `what` names the value in the refusal. */
  async ensure(count: number, what: string): Promise<void> {
    if (this.holds(count)) return;
    if (this.at + count > this.file.size) {
      throw new LoadError(
        this.file.path,
        `the header is cut off: the file ends at byte ${this.file.size}, within ${what}; download it again`,
      );
    }
    const bytes = this.window.subarray(0, Math.min(this.window.length, this.file.size - this.at));
    await this.file.readInto(bytes, this.at);
    this.start = this.at;
    this.end = this.at + bytes.length;
  }

  /** Throws unless `count` items of at least `bytes` bytes each can follow. */
  fits(count: number, bytes: number, what: string): void {
    const rest = this.file.size - this.at;
    if (count * bytes <= rest) return;
    throw new LoadError(
      this.file.path,
      `the header is damaged or cut off: it announces ${count} ${what} where ${rest} bytes are left`,
    );
  }

  u32(): number {
    return this.take(4, (offset) => this.view.getUint32(offset, true));
  }

  /** Rounded above 2^53, where no length or place is valid anyway. */
  u64(): number {
    return this.take(8, (offset) => Number(this.view.getBigUint64(offset, true)));
  }

  /** Reads `bytes` bytes that are held with a function of the view and their place in it. */
  number<T>(bytes: number, read: (view: DataView, offset: number) => T): T {
    return this.take(bytes, (offset) => read(this.view, offset));
  }

  /** A length and that many bytes of UTF-8. */
  async text(what: string): Promise<string> {
    await this.ensure(8, what);
    const length = this.u64();
    this.fits(length, 1, `bytes for ${what}`);
    if (length > MAX_TEXT_BYTES) throw new LoadError(this.file.path, `${what} of ${length} bytes is not supported`);
    if (length <= this.window.length) {
      await this.ensure(length, what);
      return this.heldBytes(length);
    }
    const bytes = await this.file.read(this.at, length);
    this.at += length;
    return Buffer.from(bytes.buffer).toString('utf8');
  }

  /** The same without waiting, or undefined where that needs more than is held. */
  heldText(): string | undefined {
    if (!this.holds(8)) return undefined;
    const length = Number(this.view.getBigUint64(this.at - this.start, true));
    if (!this.holds(8 + length)) return undefined;
    this.at += 8;
    return this.heldBytes(length);
  }

  private heldBytes(length: number): string {
    return this.take(length, (offset) => this.window.toString('utf8', offset, offset + length));
  }

  private take<T>(count: number, read: (offset: number) => T): T {
    const value = read(this.at - this.start);
    this.at += count;
    return value;
  }
}
