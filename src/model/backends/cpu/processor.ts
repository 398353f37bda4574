/** What layouts of packed weights depend on. */
import { readFileSync } from 'node:fs';
import { arch, cpus, platform } from 'node:os';
import { env } from 'onnxruntime-node';

/** Of the flags that Linux lists, those that name instructions kernels may be made of. */
const INSTRUCTIONS = /^(sse|ssse|avx|amx|fma|f16c|bmi|asimd|sve|sme|i8mm|bf16|fphp)/;

const instructions = listedInstructions();

/** Names the kernels that ONNX Runtime chooses here: its version, the system, and what the processor can do. */
export function kernelTarget(): string {
  return [env.versions.node, platform(), arch(), ...(instructions ?? [cpus()[0]?.model ?? ''])].join(' ');
}

/**
 * Whether a product of any 8-bit integers is exact here. Without VNNI, kernels of x64 add two products in 16 bits, where
 * large ones saturate; weights are then multiplied by slower kernels (`session.ts`), which take no others.
 */
export function productsAreExact(): boolean {
  return arch() !== 'x64' || (instructions ?? []).some((flag) => /vnni/.test(flag));
}

/** Undefined where Linux's list is not to be had. */
function listedInstructions(): string[] | undefined {
  try {
    const listed = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1];
    return listed
      ?.split(' ')
      .filter((flag) => INSTRUCTIONS.test(flag))
      .sort();
  } catch {
    return undefined;
  }
}
