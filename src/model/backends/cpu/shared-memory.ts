/** Shared memory as native modules take it. */
import koffi from 'koffi';

/** Keeps shared memory for as long as an ArrayBuffer of its bytes is there. */
const owners = new WeakMap<ArrayBuffer, SharedArrayBuffer>();

/**
 * `length` bytes from `offset` on as an ArrayBuffer, of at most 4 GiB. Node-API in Node 20 takes no views of a
 * SharedArrayBuffer, and so neither does ONNX Runtime.
 */
export function asArrayBuffer(memory: SharedArrayBuffer, offset: number, length: number): ArrayBuffer {
  const buffer = koffi.view(koffi.address(new Uint8Array(memory, offset, 1)), length);
  owners.set(buffer, memory);
  return buffer;
}
