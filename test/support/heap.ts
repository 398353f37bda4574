/** Bytes of the heap that are in use, without garbage. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export function usedHeap(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed;
}
