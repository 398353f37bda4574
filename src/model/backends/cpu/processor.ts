/** What layouts of packed weights depend on. */
import { readFileSync } from 'node:fs';
import { arch, cpus, platform } from 'node:os';
import { env } from 'onnxruntime-node';

/** Names the kernels that ONNX Runtime chooses here: its version, the system, and what the processor can do. */
export function kernelTarget(): string {
  return [env.versions.node, platform(), arch(), processorFeatures()].join(' ');
}

/** The instruction sets as Linux lists them; elsewhere the processor's name has to do. */
function processorFeatures(): string {
  if (platform() === 'linux') {
    const listed = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1];
    if (listed !== undefined) return listed;
  }
  return cpus()[0]?.model ?? '';
}
