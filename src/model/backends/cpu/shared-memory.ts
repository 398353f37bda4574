/** Shared memory as native modules take it. */
import koffi from 'koffi';

/**
 * The same bytes as an ArrayBuffer. Node-API in Node 20 takes no views of a SharedArrayBuffer, and so neither does ONNX
 * Runtime. Whoever holds the result has to hold `memory` as well: only that keeps the bytes.
 */
export function asArrayBuffer(memory: SharedArrayBuffer): ArrayBuffer {
  return koffi.view(koffi.address(new Uint8Array(memory)), memory.byteLength);
}
