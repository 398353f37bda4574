/** How the C library allocates what sessions compute. */
import { platform } from 'node:os';
import koffi from 'koffi';

/** mallopt(3): from how many bytes on memory is mapped by itself and given back when it is freed. */
const M_MMAP_THRESHOLD = -3;
const THRESHOLD = 2 ** 20;

/**
 * Keeps glibc from raising that threshold to the largest tensor that was ever freed: from then on tensors of all sizes lie in
 * its heaps, which each thread has of its own and which only shrink from their end. Other libraries are left as they are.
 */
export function mapLargeAllocations(): void {
  if (platform() !== 'linux') return;
  try {
    koffi.load('libc.so.6').func('int mallopt(int param, int value)')(M_MMAP_THRESHOLD, THRESHOLD);
  } catch {
    // Not glibc.
  }
}
