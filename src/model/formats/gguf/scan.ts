/**
 * Walks a GGUF header without keeping anything, to prove that every length in it lies within the file. The parser of
 * @huggingface/gguf that reads the values afterwards takes bytes past the end for zeros, so it must not see a damaged
 * file. Layout: ggml/docs/gguf.md.
 */
import { LoadError } from '../../../errors.js';
import type { BinaryFile } from '../binary-file.js';

const WINDOW_BYTES = 1 << 20;
/** Bounds of @huggingface/gguf: it holds the header in one buffer and refuses longer lists and strings. */
const MAX_HEADER_BYTES = 48_000_000;
const MAX_LIST_LENGTH = 1_000_000;
const MAX_STRING_BYTES = 10_000_000;
const MAX_DIMENSIONS = 4;
const MAX_DEPTH = 4;

const STRING = 8;
const LIST = 9;
/** Bytes of the value types with a fixed size, by type number: u8, i8, u16, i16, u32, i32, f32, bool, -, -, u64, i64, f64. */
const VALUE_BYTES: readonly number[] = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];

/** Throws LoadError when the header is not that of a whole little-endian GGUF file of version 2 or 3. */
export async function scanGgufHeader(file: BinaryFile): Promise<void> {
  const cursor = new Cursor(file);
  await cursor.ensure(24, 'the file header');
  if (cursor.u32() !== 0x46554747) throw new LoadError(file.path, 'not a GGUF file: it does not start with "GGUF"');
  const version = cursor.u32();
  if (version !== 0 && (version & 0xffff) === 0)
    throw new LoadError(file.path, 'a big-endian GGUF file, which is not supported');
  if (version !== 2 && version !== 3) {
    throw new LoadError(file.path, `GGUF version ${version} is not supported (2 and 3 are)`);
  }
  const tensors = cursor.u64();
  const pairs = cursor.u64();
  cursor.fits(tensors, 24, 'tensors');
  cursor.fits(pairs, 13, 'metadata keys');
  for (let i = 0; i < pairs; i++) {
    if ((await cursor.string('a metadata key')) === 0) throw new LoadError(file.path, `metadata key ${i} is empty`);
    await cursor.ensure(4, 'a metadata type');
    await cursor.value(cursor.u32(), 0);
  }
  for (let i = 0; i < tensors; i++) {
    if ((await cursor.string('a tensor name')) === 0)
      throw new LoadError(file.path, `the name of tensor ${i} is empty`);
    await cursor.ensure(4, 'a tensor');
    const dimensions = cursor.u32();
    if (dimensions < 1 || dimensions > MAX_DIMENSIONS) {
      throw new LoadError(file.path, `tensor ${i} has ${dimensions} dimensions (1 to ${MAX_DIMENSIONS} are possible)`);
    }
    await cursor.ensure(8 * dimensions + 12, 'a tensor');
    for (let d = 0; d < dimensions; d++) {
      const size = cursor.u64();
      if (size < 1 || size > file.size * 8)
        throw new LoadError(file.path, `tensor ${i} has a dimension of size ${size}`);
    }
    cursor.skip(12);
  }
}

/** A position in the file, with a window of it in memory. */
class Cursor {
  private readonly window: Uint8Array;
  private readonly view: DataView;
  private windowStart = 0;
  private windowEnd = 0;
  private position = 0;

  constructor(private readonly file: BinaryFile) {
    this.window = new Uint8Array(Math.min(WINDOW_BYTES, file.size));
    this.view = new DataView(this.window.buffer);
  }

  /** Makes the next `count` (at most 64) bytes available to the synchronous reads. */
  async ensure(count: number, what: string): Promise<void> {
    if (this.holds(count)) return;
    if (this.position + count > this.file.size) this.cutOff(what);
    if (this.position + count > MAX_HEADER_BYTES) {
      throw new LoadError(
        this.file.path,
        `its header is longer than ${MAX_HEADER_BYTES} bytes, which is not supported`,
      );
    }
    const bytes = this.window.subarray(0, Math.min(this.window.length, this.file.size - this.position));
    await this.file.readInto(bytes, this.position);
    this.windowStart = this.position;
    this.windowEnd = this.position + bytes.length;
  }

  private holds(count: number): boolean {
    return this.position + count <= this.windowEnd;
  }

  u32(): number {
    const value = this.view.getUint32(this.position - this.windowStart, true);
    this.position += 4;
    return value;
  }

  /** Rounded above 2^53, where no length is valid anyway. */
  u64(): number {
    const low = this.u32();
    return low + this.u32() * 2 ** 32;
  }

  /** Moves on; whether bytes are there is checked when the next ones are read. */
  skip(count: number): void {
    this.position += count;
  }

  /** Throws unless `count` items of at least `bytes` bytes can follow. */
  fits(count: number, bytes: number, what: string): void {
    if (count * bytes <= this.file.size - this.position) return;
    const rest = Math.max(this.file.size - this.position, 0);
    throw new LoadError(
      this.file.path,
      `the header is damaged or cut off: it announces ${count} ${what} where ${rest} bytes are left`,
    );
  }

  /** Passes over a string and returns its length in bytes. */
  async string(what: string): Promise<number> {
    if (!this.holds(8)) await this.ensure(8, what);
    return this.heldString(what);
  }

  /** The same where the length is in the window already: vocabularies are too long to wait for each text. */
  private heldString(what: string): number {
    const length = this.u64();
    this.fits(length, 1, `bytes for ${what}`);
    if (length > MAX_STRING_BYTES) throw new LoadError(this.file.path, `${what} of ${length} bytes is not supported`);
    this.skip(length);
    return length;
  }

  /** Passes over a metadata value. */
  async value(type: number, depth: number): Promise<void> {
    if (type === STRING) {
      await this.string('a metadata text');
      return;
    }
    if (type !== LIST) {
      const bytes = this.bytesOf(type);
      this.fits(1, bytes, 'metadata value');
      this.skip(bytes);
      return;
    }
    if (depth >= MAX_DEPTH) throw new LoadError(this.file.path, 'metadata lists are nested too deeply');
    await this.ensure(12, 'a metadata list');
    const elementType = this.u32();
    const length = this.u64();
    if (elementType === STRING || elementType === LIST) {
      this.fits(length, elementType === STRING ? 8 : 12, 'list elements');
      this.refuseLong(length);
      for (let i = 0; i < length; i++) {
        if (elementType === STRING && this.holds(8)) this.heldString('a metadata text');
        else await this.value(elementType, depth + 1);
      }
    } else {
      const bytes = this.bytesOf(elementType);
      this.fits(length, bytes, 'list elements');
      this.refuseLong(length);
      this.skip(length * bytes);
    }
  }

  private bytesOf(type: number): number {
    const bytes = VALUE_BYTES[type];
    if (bytes !== undefined && bytes > 0) return bytes;
    throw new LoadError(
      this.file.path,
      `unknown metadata type ${type} at byte ${this.position - 4}: the header is damaged`,
    );
  }

  private refuseLong(length: number): void {
    if (length <= MAX_LIST_LENGTH) return;
    throw new LoadError(
      this.file.path,
      `a metadata list of ${length} elements is not supported (up to ${MAX_LIST_LENGTH} are)`,
    );
  }

  private cutOff(what: string): never {
    throw new LoadError(
      this.file.path,
      `the header is cut off: the file ends at byte ${this.file.size}, within ${what}; download it again`,
    );
  }
}
