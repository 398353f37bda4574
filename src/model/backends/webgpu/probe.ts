/** The child process of `adapter.ts`: finds the adapter, runs a node on it, and writes what it found as a line of JSON. */
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { toFloat16 } from '../../float16.js';
import { GraphBuilder } from '../../graph/builder.js';
import type { Adapter, Probe } from './adapter.js';
import { webgpuSessionOptions } from './session.js';

async function findAdapter(): Promise<Adapter | undefined> {
  const { create } = await import('webgpu');
  const adapter = await create([]).requestAdapter({ powerPreference: 'high-performance' });
  if (adapter === null) return undefined;
  const { vendor, architecture, device, description, isFallbackAdapter } = adapter.info;
  return {
    name: adapterName(device, description) || vendor || 'an unnamed adapter',
    vendor,
    architecture,
    software: isFallbackAdapter || /software|swiftshader|llvmpipe/i.test(`${architecture} ${device}`),
    features: [...adapter.features].sort(),
    maxBufferSize: adapter.limits.maxBufferSize,
    maxStorageBufferBindingSize: adapter.limits.maxStorageBufferBindingSize,
  };
}

/** Drivers pad the device's name with punctuation. */
function adapterName(device: string, description: string): string {
  const name = device.replace(/[-\s]+$/, '');
  return name === '' || description === '' ? name || description : `${name} (${description})`;
}

/** Doubles one number in fp16 on the device. */
async function tryOut(): Promise<void> {
  const g = new GraphBuilder('probe');
  const x = g.input('x', 'float16', [1]);
  g.nodes('Add', [x, x], ['doubled']);
  g.output('doubled', 'float16', [1]);
  const session = await InferenceSession.create(g.toBytes(), webgpuSessionOptions());
  const half = (value: number) => toFloat16(Float32Array.of(value));
  const { doubled } = await session.run({ x: new Tensor('float16', half(1.5), [1]) });
  await session.release();
  const [bits] = doubled!.data as unknown as Uint16Array;
  if (bits !== half(3)[0]) throw new Error('it computes wrong numbers');
}

async function probe(): Promise<Probe> {
  const adapter = await findAdapter();
  if (adapter === undefined) return { found: false, reason: 'no adapter answered' };
  if (!adapter.features.includes('shader-f16')) {
    return { found: false, reason: `the adapter ${adapter.name} has no 16-bit floating point` };
  }
  await tryOut();
  return { found: true, adapter };
}

const answer = await probe().catch((error: unknown): Probe => {
  const message = error instanceof Error ? error.message : String(error);
  return { found: false, reason: message.split('\n')[0] as string };
});
// Dawn's instance keeps the process alive, and some drivers fail on an orderly end; all that matters has been said.
process.stdout.write(`\n${JSON.stringify(answer)}\n`, () => process.kill(process.pid, 'SIGKILL'));
