/** Writes safetensors files, whole or wrong, and takes whole ones apart. */

export interface SafetensorsTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
  /** Overrides the place in the data, for damaged files. */
  readonly offsets?: readonly [number, number];
}

export type SafetensorsTensors = Readonly<Record<string, SafetensorsTensor>>;

/** @param headerBytes pads the header with spaces to this length */
export function safetensorsFile(tensors: SafetensorsTensors, headerBytes = 0): Buffer {
  const header: Record<string, unknown> = {};
  let end = 0;
  for (const [name, { dtype, shape, data, offsets }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: offsets ?? [end, end + data.length] };
    end += data.length;
  }
  const json = Buffer.from(JSON.stringify(header).padEnd(headerBytes));
  return Buffer.concat([headerLength(json.length), json, ...Object.values(tensors).map(({ data }) => data)]);
}

export function headerLength(length: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(length));
  return bytes;
}

export function parseSafetensors(file: Buffer): Record<string, SafetensorsTensor> {
  const length = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, 8 + length)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  const tensors: Record<string, SafetensorsTensor> = {};
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    tensors[name] = { dtype, shape, data: file.subarray(8 + length + offsets[0], 8 + length + offsets[1]) };
  }
  return tensors;
}
