/** Writes GGUF files, whole or wrong, after ggml/docs/gguf.md. */

/** A metadata value with its type, or a number that is written as u32, or a text. */
export type GgufValue =
  | number
  | string
  | boolean
  | { readonly f32: number }
  | { readonly i32s: readonly number[] }
  | { readonly f32s: readonly number[] }
  | { readonly bools: readonly boolean[] }
  | { readonly texts: readonly string[] }
  /** Bytes after the key, type number included. */
  | { readonly bytes: Uint8Array };

export interface GgufTensor {
  readonly name: string;
  /** Row-major; written fastest first. */
  readonly shape: readonly number[];
  /** ggml's number of the type: 0 F32, 1 F16, 2 Q4_0, 3 Q4_1, 8 Q8_0, 14 Q6_K, 30 BF16. */
  readonly type: number;
  readonly data: Uint8Array;
  /** Overrides the place in the data, for damaged files. */
  readonly offset?: number;
}

export interface GgufContents {
  readonly metadata: Readonly<Record<string, GgufValue>>;
  readonly tensors: readonly GgufTensor[];
  readonly version?: number;
  /** Override the counts of the header, for damaged files. */
  readonly tensorCount?: number;
  readonly pairCount?: number;
}

const ALIGNMENT = 32;

export function ggufFile({ metadata, tensors, version, tensorCount, pairCount }: GgufContents): Buffer {
  const pairs = Object.entries(metadata);
  const header: Buffer[] = [
    Buffer.from('GGUF'),
    u32(version ?? 3),
    u64(tensorCount ?? tensors.length),
    u64(pairCount ?? pairs.length),
    ...pairs.flatMap(([key, value]) => [text(key), encode(value)]),
  ];
  const data: Buffer[] = [];
  let end = 0;
  for (const tensor of tensors) {
    const sizes = [...tensor.shape].reverse();
    header.push(text(tensor.name), u32(sizes.length), ...sizes.map(u64), u32(tensor.type), u64(tensor.offset ?? end));
    data.push(padded(Buffer.from(tensor.data)));
    end += data.at(-1)!.length;
  }
  return Buffer.concat([padded(Buffer.concat(header)), ...data]);
}

function encode(value: GgufValue): Buffer {
  if (typeof value === 'number') return Buffer.concat([u32(4), u32(value)]);
  if (typeof value === 'string') return Buffer.concat([u32(8), text(value)]);
  if (typeof value === 'boolean') return Buffer.concat([u32(7), Buffer.from([value ? 1 : 0])]);
  if ('bytes' in value) return Buffer.from(value.bytes);
  if ('f32' in value) return Buffer.concat([u32(6), f32(value.f32)]);
  if ('i32s' in value) return list(5, value.i32s.map(i32));
  if ('f32s' in value) return list(6, value.f32s.map(f32));
  if ('bools' in value)
    return list(
      7,
      value.bools.map((flag) => Buffer.from([flag ? 1 : 0])),
    );
  return list(8, value.texts.map(text));
}

function list(type: number, items: readonly Buffer[]): Buffer {
  return Buffer.concat([u32(9), u32(type), u64(items.length), ...items]);
}

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc((ALIGNMENT - (bytes.length % ALIGNMENT)) % ALIGNMENT)]);
}

export function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([u64(bytes.length), bytes]);
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

export function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function i32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

export function f32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}
