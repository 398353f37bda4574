/** Devices as a person meets them: by the options and messages of the built program, the engine in its own thread. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { MODELS } from './support/models.js';

const PROGRAM = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const LLAMA = join(MODELS, 'tiny-llama');
const NO_DRIVER = { VK_ICD_FILENAMES: '/nonexistent', VK_DRIVER_FILES: '/nonexistent' };

interface Ending {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function run(args: readonly string[], env: Record<string, string> = {}): Promise<Ending> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [PROGRAM, ...args], { env: { ...process.env, ...env } });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (data: Buffer) => {
      stdout += data;
      // A server has nothing more to say once its banner is out.
      if (stdout.includes('Try it:')) child.kill('SIGTERM');
    });
    child.stderr.on('data', (data: Buffer) => {
      stderr += data;
    });
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
}

const generate = (device: string) => [
  ...['generate', '--raw', '--temperature', '0', '--max-tokens', '12'],
  ...['--kv-cache-memory', '4MiB', '--model', LLAMA, '--device', device, 'The server streams'],
];

describe('generate', () => {
  it('gives the same text on the device as on the CPU, and ends in order', async () => {
    const onDevice = await run(generate('webgpu'));
    const onCpu = await run(generate('cpu'));
    expect(onDevice.stdout).toBe(onCpu.stdout);
    expect(onDevice.stdout.length).toBeGreaterThan(12);
    expect([onDevice.code, onCpu.code]).toEqual([0, 0]);
  });

  it('without a driver: exits with 1 and says what to install, when WebGPU is asked for', async () => {
    const { code, stdout, stderr } = await run(generate('webgpu'), NO_DRIVER);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^sluice: There is no WebGPU device: .*mesa-vulkan-drivers.*--device cpu\.$/m);
  });

  it('without a driver: runs on the CPU by itself', async () => {
    const { code, stdout } = await run(generate('auto'), NO_DRIVER);
    expect([code, stdout]).toEqual([0, (await run(generate('cpu'))).stdout]);
  });
});

describe('serve', () => {
  const serve = (device: string) => [
    ...['serve', '--port', '0', '--kv-cache-memory', '4MiB', '--model', LLAMA, '--device', device],
  ];

  it('names adapter, limits and features', async () => {
    const { code, stdout } = await run(serve('webgpu'));
    expect(stdout).toMatch(/device\s+webgpu: ONNX Runtime on WebGPU, \S/);
    expect(stdout).toMatch(/buffers up to \d+ MiB/);
    expect(stdout).toMatch(/shader-f16/);
    expect(code).toBe(0);
  });

  it.each([
    ['no driver', NO_DRIVER, /device\s+cpu: .*there is no WebGPU device: no adapter answered/s],
    ['a software driver', {}, /device\s+cpu: .*the only WebGPU device is a software driver/s],
  ])('with %s runs on the CPU and says why', async (_, env, line) => {
    const { code, stdout } = await run(serve('auto'), env);
    expect(stdout).toMatch(line);
    expect(code).toBe(0);
  });
});
