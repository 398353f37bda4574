/**
 * A GGUF file in another block type, as llama.cpp's own quantizer makes it: the bundled model is Q4_1, while llama.cpp is
 * fastest with Q4_0, which it repacks. Only matrices of the layers change; llama.cpp, too, leaves a tied embedding of this
 * width at Q8_0.
 */
import { open, rename } from 'node:fs/promises';
import { BinaryFile } from '../../../src/model/formats/binary-file.js';
import { dequantize } from '../../../src/model/formats/dequantize.js';
import { byteLength, elementCount } from '../../../src/model/formats/elements.js';
import { type GgufTensorInfo, readGgufHeader } from '../../../src/model/formats/gguf/header.js';
import { ggufTensors } from '../../../src/model/formats/gguf/tensors.js';
import { openCheckpoint } from '../../../src/model/formats/open.js';
import { QUANTIZERS, type QuantizedType } from './quantize.js';

/** enum ggml_type of ggml.h. */
const TYPE_NUMBERS: Readonly<Record<QuantizedType, number>> = { Q4_0: 2, Q8_0: 8 };

export async function requantizeGguf(source: string, target: string, type: QuantizedType): Promise<void> {
  const file = await BinaryFile.open(source);
  const unfinished = `${target}.unfinished`;
  const out = await open(unfinished, 'w');
  try {
    const header = await readGgufHeader(file);
    const { alignment, dataStart } = header;
    const stored = ggufTensors(file, header);
    const changes = (info: GgufTensorInfo): boolean => info.name.startsWith('blk.') && info.shape.length === 2;

    let offset = 0;
    const infos = header.tensors.map((info): GgufTensorInfo => {
      const bytes = changes(info) ? byteLength(type, elementCount(info.shape)) : stored.get(info.name)!.bytes;
      const moved = { ...info, type: changes(info) ? TYPE_NUMBERS[type] : info.type, offset };
      offset += Math.ceil(bytes / alignment) * alignment;
      return moved;
    });

    // Types and offsets have fixed sizes, so the list of tensors takes the place of the old one.
    const head = Buffer.from(await file.read(0, dataStart));
    const list = encodeInfos(header.tensors);
    const at = head.lastIndexOf(list);
    if (at < 0) throw new Error(`${source}: the list of tensors was not found in the header`);
    encodeInfos(infos).copy(head, at);
    await out.write(head, 0, head.length, 0);

    for (const [index, info] of header.tensors.entries()) {
      const tensor = stored.get(info.name)!;
      let bytes = await file.read(tensor.offset, tensor.bytes);
      if (changes(info)) {
        const values = new Float32Array(elementCount(info.shape));
        dequantize(tensor.type, bytes, values);
        bytes = QUANTIZERS[type](values);
      }
      await out.write(bytes, 0, bytes.length, dataStart + infos[index]!.offset);
    }
    await out.truncate(dataStart + offset);
  } finally {
    await out.close();
    await file.close();
  }
  await (await openCheckpoint(unfinished)).close();
  await rename(unfinished, target);
}

/** The tensor list as GGUF lays it out: name, sizes, type and offset of each. */
function encodeInfos(infos: readonly GgufTensorInfo[]): Buffer {
  return Buffer.concat(
    infos.map(({ name, shape, type, offset }) => {
      const text = Buffer.from(name);
      const bytes = Buffer.alloc(8 + text.length + 4 + 8 * shape.length + 4 + 8);
      let at = bytes.writeBigUInt64LE(BigInt(text.length), 0);
      at += text.copy(bytes, at);
      at = bytes.writeUInt32LE(shape.length, at);
      for (const size of shape) at = bytes.writeBigUInt64LE(BigInt(size), at);
      at = bytes.writeUInt32LE(type, at);
      bytes.writeBigUInt64LE(BigInt(offset), at);
      return bytes;
    }),
  );
}
