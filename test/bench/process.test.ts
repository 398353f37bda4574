import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { DriverProcess } from '../../bench/peers/process.js';

const stub = (...args: string[]) => ({
  command: process.execPath,
  args: [fileURLToPath(new URL('./stub-driver.mjs', import.meta.url)), ...args],
});
const request = (first: number) => ({ prompts: [[first], [first + 1]], newTokens: 2 });

let driver: DriverProcess | undefined;
afterEach(async () => driver?.stop());

async function start(): Promise<DriverProcess> {
  const started = await DriverProcess.start('stub', stub());
  expect(started.description).toBe('stub');
  driver = started.driver;
  return started.driver;
}

describe('DriverProcess', () => {
  it('hands work over and results back, one after another', async () => {
    const process = await start();
    for (const first of [1, 5]) {
      const { tokens, times } = await process.run(request(first));
      expect(tokens).toEqual([
        [first, first],
        [first + 1, first + 1],
      ]);
      expect(times).toEqual([
        [1, 2],
        [1, 2],
      ]);
    }
    expect(process.memory).toBeGreaterThan(10 * 2 ** 20);
  });

  it('counts the processor time of a run', async () => {
    const process = await start();
    const { cpu } = await process.run(request(11));
    expect(cpu.wall).toBeGreaterThanOrEqual(0.4);
    // The stub works for as long as it gets a processor; what it did not get, others had.
    expect(cpu.own + cpu.others + cpu.stolen).toBeGreaterThan(0.3);
    expect(cpu.own).toBeGreaterThan(0);
  });

  it('tells an error of the engine and goes on', async () => {
    const process = await start();
    await expect(process.run(request(12))).rejects.toThrow('stub: out of memory');
    expect((await process.run(request(1))).tokens).toHaveLength(2);
  });

  it('tells how a driver ended, with its last words', async () => {
    const process = await start();
    await expect(process.run(request(13))).rejects.toThrow('stub ended with code 1');
    await expect(process.run(request(1))).rejects.toThrow('stub ended with code 1');
    await expect(DriverProcess.start('stub', stub('fails'))).rejects.toThrow(
      'stub ended with code 3:\nloading\nno such model',
    );
  });

  it('tells when the program is not there', async () => {
    await expect(DriverProcess.start('none', { command: '/nowhere/none', args: [] })).rejects.toThrow('ENOENT');
  });
});
