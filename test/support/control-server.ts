/**
 * An HTTP server in a process of its own that does nothing at all: how long its answers take is what the machine itself
 * makes clients of any server wait, which on a busy one is no fault of the server under test.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

const SCRIPT = `
const server = require('node:http').createServer((_, response) => response.end('ok'));
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
`;

export interface ControlServer {
  readonly url: string;
  stop(): Promise<void>;
}

export async function startControlServer(): Promise<ControlServer> {
  const child = spawn(process.execPath, ['--eval', SCRIPT], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = (await once(child.stdout, 'data')) as [Buffer];
  return {
    url: `http://127.0.0.1:${Number(port.toString())}/`,
    async stop() {
      const closed = once(child, 'close');
      child.kill('SIGKILL');
      await closed;
    },
  };
}
