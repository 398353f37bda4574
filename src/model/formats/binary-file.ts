/**
 * A file read by position. Every read is checked against the file's length before memory is taken for it, so a damaged
 * header can neither read past the end nor ask for absurd amounts of memory.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { LoadError } from '../../errors.js';

/** The kernel reads less than 2 GiB at once. */
const MAX_READ = 1 << 30;

export class BinaryFile {
  private constructor(
    readonly path: string,
    /** Bytes. */
    readonly size: number,
    private readonly handle: FileHandle,
  ) {}

  /** Throws LoadError when there is no such file, it cannot be read, is not a regular file or is empty. */
  static async open(path: string): Promise<BinaryFile> {
    let handle: FileHandle | undefined;
    try {
      handle = await open(path, 'r');
      const status = await handle.stat();
      if (!status.isFile()) throw new LoadError(path, 'not a regular file');
      if (status.size === 0) throw new LoadError(path, 'the file is empty');
      return new BinaryFile(path, status.size, handle);
    } catch (error) {
      await handle?.close();
      throw asLoadError(path, error);
    }
  }

  /** `length` bytes from `position`, in memory of their own. */
  async read(position: number, length: number): Promise<Uint8Array> {
    this.check(position, length);
    const bytes = new Uint8Array(length);
    await this.readInto(bytes, position);
    return bytes;
  }

  /** Fills `target` from `position`. */
  async readInto(target: Uint8Array, position: number): Promise<void> {
    this.check(position, target.length);
    let done = 0;
    while (done < target.length) {
      const wanted = Math.min(target.length - done, MAX_READ);
      let got: number;
      try {
        got = (await this.handle.read(target, done, wanted, position + done)).bytesRead;
      } catch (error) {
        throw asLoadError(this.path, error);
      }
      if (got === 0)
        throw new LoadError(this.path, `the file became shorter while it was read, at byte ${position + done}`);
      done += got;
    }
  }

  async close(): Promise<void> {
    await this.handle.close();
  }

  private check(position: number, length: number): void {
    if (position >= 0 && length >= 0 && position + length <= this.size) return;
    throw new LoadError(this.path, `bytes ${position} to ${position + length} are past its end at ${this.size}`);
  }
}

/** A system's error in words; LoadErrors and errors of other kinds (faults of the program) pass as they are. */
export function asLoadError(path: string, error: unknown): unknown {
  if (error instanceof LoadError || !(error instanceof Error) || !('code' in error)) return error;
  switch (error.code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return new LoadError(path, 'no such file');
    case 'EACCES':
    case 'EPERM':
      return new LoadError(path, 'no permission to read it');
    case 'EISDIR':
      return new LoadError(path, 'is a directory, not a file');
    default:
      return new LoadError(path, `cannot be read (${error.message})`);
  }
}
