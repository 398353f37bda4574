/**
 * Where a graph's large constants go. A protobuf message ends at 2 GB, so weights are written to a file beside the model
 * ("external data"), one tensor at a time; ONNX Runtime maps that file into memory.
 */
import { type FileHandle, open } from 'node:fs/promises';

/** Page size, so that every tensor can be mapped at its own address. */
const ALIGNMENT = 4096;

export interface StoredWeight {
  /** File name, relative to the model file. */
  readonly location: string;
  readonly offset: number;
  readonly length: number;
}

export class WeightStore {
  #offset = 0;

  private constructor(
    readonly location: string,
    private readonly file: FileHandle,
  ) {}

  /** Creates `directory/location`, which must not exist. */
  static async create(directory: string, location: string): Promise<WeightStore> {
    return new WeightStore(location, await open(`${directory}/${location}`, 'wx'));
  }

  /** Appends the bytes at the next aligned offset. */
  async write(bytes: Uint8Array): Promise<StoredWeight> {
    const offset = Math.ceil(this.#offset / ALIGNMENT) * ALIGNMENT;
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await this.file.write(bytes, done, bytes.length - done, offset + done);
      done += bytesWritten;
    }
    this.#offset = offset + bytes.length;
    return { location: this.location, offset, length: bytes.length };
  }

  async close(): Promise<void> {
    await this.file.close();
  }
}
