/**
 * How late this machine is at the moment: the time from writing a byte to reading it, over a plain loopback connection
 * within this process. What it measures has no part in anything under test.
 */
import { connect, createServer, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';

export interface NoiseMeter {
  /** Milliseconds, one for each byte so far. */
  readonly delays: readonly number[];
  stop(): Promise<void>;
}

/** Sends a byte every few milliseconds until stopped. */
export async function measureNoise(): Promise<NoiseMeter> {
  const delays: number[] = [];
  let writtenAt = 0;
  const server = createServer((socket) => {
    socket.on('data', () => delays.push(performance.now() - writtenAt));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const client = await new Promise<Socket>((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true }, () => resolve(socket));
  });
  let sent = 0;
  const timer = setInterval(() => {
    if (sent > delays.length) return;
    sent += 1;
    writtenAt = performance.now();
    client.write('.');
  }, 3);
  return {
    delays,
    async stop() {
      clearInterval(timer);
      client.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
