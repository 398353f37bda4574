/** The machine that figures come from, in a line for people. */
import { readFileSync } from 'node:fs';
import { cpus, loadavg, totalmem } from 'node:os';
import { join } from 'node:path';
import { formatSize } from '../../src/cli/values.js';
import { root } from './paths.js';

/** Say it before the measuring: the load average then is that of other programs. */
export function describeMachine(): string {
  const [cpu] = cpus();
  const runtime = JSON.parse(readFileSync(join(root, 'node_modules/onnxruntime-node/package.json'), 'utf8')).version;
  const parts = [
    `${cpus().length} cores of ${cpu?.model.trim() ?? 'an unknown processor'}`,
    `${formatSize(totalmem())} memory`,
    `Node ${process.versions.node}`,
    `ONNX Runtime ${runtime}`,
    `load average before the run ${loadavg()[0]!.toFixed(1)}`,
  ];
  return parts.join(', ');
}
