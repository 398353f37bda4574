/**
 * Hostile bytes on raw sockets while a stream runs: cut heads, slow bodies, split characters, huge fields, pipelines,
 * smuggling, noise. The stream is the same byte for byte, nothing is answered with 5xx, and nothing is left behind.
 * FUZZ_SECONDS sets for how long.
 */
import { once } from 'node:events';
import net from 'node:net';
import { expect, it } from 'vitest';
import { childServer, fixtureModel } from '../support/child-server.js';
import { mulberry32 } from '../support/random.js';

const SECONDS = Number(process.env['FUZZ_SECONDS'] ?? 15);
const ATTACKERS = 8;
const server = childServer([
  '--model',
  fixtureModel('tiny-llama'),
  '--kv-cache-memory',
  '64MiB',
  '--max-body-size',
  '1MiB',
]);

const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

class Connection {
  text = '';
  private constructor(readonly socket: net.Socket) {}

  static async open(): Promise<Connection> {
    const socket = net.connect(Number(new URL(server.url).port), '127.0.0.1');
    const connection = new Connection(socket);
    // Being dropped is part of it.
    socket.on('error', () => {}).setEncoding('latin1');
    socket.on('data', (data: string) => {
      if (connection.text.length < 1 << 20) connection.text += data;
    });
    await once(socket, 'connect');
    return connection;
  }

  write(bytes: string | Uint8Array): void {
    if (this.socket.writable) this.socket.write(bytes);
  }

  /** Waits for the server to close, or for so long. */
  async closed(milliseconds: number): Promise<void> {
    if (this.socket.destroyed) return;
    await Promise.race([once(this.socket, 'close').catch(() => {}), pause(milliseconds)]);
  }
}

function request(path: string, body: string | Uint8Array, headers = ''): Buffer {
  const bytes = Buffer.from(body as string);
  const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}`;
  return Buffer.concat([Buffer.from(`${head}Content-Length: ${bytes.length}\r\n\r\n`), bytes]);
}

const completion = (fields: object) => JSON.stringify({ prompt: 'größer 🎉', max_tokens: 4, ...fields });
const valid = request('/v1/completions', completion({}));

type Random = (below: number) => number;
type Attack = (connection: Connection, random: Random) => Promise<void>;

const bodies: readonly (string | Uint8Array)[] = [
  '',
  '{',
  '{"prompt":"\\ud800"}',
  '{"prompt":"a","max_tokens":1e999}',
  `{"prompt":${'['.repeat(50_000)}}`,
  `{"prompt":"${'x'.repeat(500_000)}"}`,
  `{"prompt":"a","stop":["${'y'.repeat(200_000)}"]}`,
  `{"prompt":"a","${'k'.repeat(300_000)}":1}`,
  `{"prompt":"a","logit_bias":{${Array.from({ length: 20_000 }, (_, i) => `"${i}":1`).join(',')}}}`,
  '{"prompt":"a","__proto__":{"stream":true},"constructor":1}',
  Uint8Array.of(0x7b, 0x22, 0xff, 0xfe, 0xc0, 0x80, 0x22, 0x7d),
  Buffer.concat([Buffer.from('{"prompt":"'), Buffer.of(0xf0, 0x9f), Buffer.from('"}')]),
  `{"prompt":"a"}${' '.repeat(1_100_000)}`,
];

const heads: readonly string[] = [
  'nonsense\r\n\r\n',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
  'GET /health HTTP/9.9\r\nHost: x\r\n\r\n',
  'GET /%zz%00/../../etc HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET http://other/health HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET /health HTTP/1.1\r\n\r\n',
  'GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n',
  'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET /health HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
  `GET /${'a'.repeat(60_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
  `GET /health HTTP/1.1\r\nHost: x\r\nX: ${'h'.repeat(30_000)}\r\n\r\n`,
  `GET /health HTTP/1.1\r\nHost: x\r\n${'A: b\r\n'.repeat(3_000)}\r\n`,
  'GET /health HTTP/1.1\r\nHost: x\r\nAuthorization: \x00\x01\r\n\r\n',
  'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
  'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{}',
  'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}',
  'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n',
  'POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
  'POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}',
  'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}',
  'GET /v1/streams/x HTTP/1.1\r\nHost: x\r\nLast-Event-ID: \xff\xfe\r\n\r\n',
];

const attacks: Record<string, Attack> = {
  async cutHead(connection, random) {
    connection.write(valid.subarray(0, random(valid.length)));
    await pause(random(30));
    if (random(2) === 0) connection.socket.resetAndDestroy();
  },
  async slowBody(connection, random) {
    const from = valid.length - 30;
    connection.write(valid.subarray(0, from));
    for (let i = 0; i < random(20); i++) {
      connection.write(valid.subarray(from + i, from + i + 1));
      await pause(random(40));
    }
  },
  async splitCharacters(connection, random) {
    const close = request('/v1/completions', completion({ stream: random(2) === 0 }), 'Connection: close\r\n');
    for (let at = 0; at < close.length; ) {
      const size = 1 + random(5);
      connection.write(close.subarray(at, at + size));
      at += size;
      if (random(10) === 0) await pause(1);
    }
    await connection.closed(30_000);
    expect(connection.text).toMatch(/^HTTP\/1\.1 200 /);
  },
  async strangeHead(connection, random) {
    connection.write(Buffer.from(heads[random(heads.length)]!, 'latin1'));
    await connection.closed(200);
  },
  async strangeBody(connection, random) {
    const path = ['/v1/completions', '/v1/chat/completions', '/v1/responses', '/tokenize'][random(4)]!;
    connection.write(request(path, bodies[random(bodies.length)]!, 'Connection: close\r\n'));
    await connection.closed(5_000);
  },
  async pipeline(connection, random) {
    const count = 1 + random(30);
    const health = Buffer.from('GET /health HTTP/1.1\r\nHost: x\r\n\r\n');
    const last = Buffer.from('GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    connection.write(Buffer.concat([...Array(count).fill(health), valid, last]));
    await connection.closed(30_000);
    expect(connection.text.match(/HTTP\/1\.1 200 /g)).toHaveLength(count + 2);
  },
  async pipelineThenLeave(connection, random) {
    connection.write(Buffer.concat(Array(1 + random(20)).fill(valid)));
    await pause(random(20));
  },
  async flippedBytes(connection, random) {
    const bytes = Buffer.from(valid);
    for (let i = 0; i <= random(6); i++) bytes[random(bytes.length)] = random(256);
    connection.write(bytes);
    await connection.closed(100);
  },
  async noise(connection, random) {
    connection.write(Buffer.from(Array.from({ length: 1 + random(2_000) }, () => random(256))));
    await connection.closed(100);
  },
  async leaveStream(connection, random) {
    connection.write(request('/v1/completions', completion({ stream: true, max_tokens: 800, n: 2, ignore_eos: true })));
    await pause(random(60));
    if (random(2) === 0) connection.socket.resetAndDestroy();
  },
  async neverRead(connection, random) {
    connection.socket.pause();
    const body = completion({ stream: true, max_tokens: 800, logprobs: 20, ignore_eos: true });
    connection.write(request('/v1/completions', body));
    await pause(random(100));
  },
};

/** The raw bytes of one stream, but for the second it was made in. */
async function victim(): Promise<string> {
  const body = completion({ seed: 7, stream: true, max_tokens: 500, logprobs: 2, ignore_eos: true });
  const connection = await Connection.open();
  let bytes = '';
  connection.socket.on('data', (data: string) => {
    bytes += data;
  });
  // In HTTP/1.0 an answer has no chunks, whose sizes tell only how many steps a write happened to hold.
  const asked = request('/v1/completions', body, 'X-Request-Id: victim\r\n').toString('latin1');
  connection.write(Buffer.from(asked.replace('HTTP/1.1', 'HTTP/1.0'), 'latin1'));
  await connection.closed(120_000);
  return bytes.replaceAll(/"created":\d+/g, '"created":0').replace(/^Date: .+$/m, 'Date: ');
}

it(`leaves a stream undisturbed for ${SECONDS} s`, { timeout: (SECONDS + 240) * 1000 }, async () => {
  const undisturbed = await victim();
  expect(undisturbed).toMatch(/^HTTP\/1\.1 200 /);
  expect(undisturbed).toContain('data: [DONE]');
  const end = performance.now() + SECONDS * 1000;
  const counts: Record<string, number> = {};
  const names = Object.keys(attacks);

  async function attack(seed: number): Promise<void> {
    const next = mulberry32(seed);
    const random: Random = (below) => Math.floor(next() * below);
    while (performance.now() < end) {
      const name = names[random(names.length)]!;
      const connection = await Connection.open();
      await attacks[name]!(connection, random);
      connection.socket.destroy();
      expect(connection.text, name).not.toMatch(/HTTP\/1\.1 5\d\d/);
      counts[name] = (counts[name] ?? 0) + 1;
    }
  }

  async function watch(): Promise<number> {
    let streams = 0;
    while (performance.now() < end) {
      expect(await victim()).toBe(undisturbed);
      streams++;
    }
    return streams;
  }

  const [streams] = await Promise.all([watch(), ...Array.from({ length: ATTACKERS }, (_, i) => attack(i + 1))]);
  console.log(`${streams} streams beside ${JSON.stringify(counts)}`);
  expect(streams).toBeGreaterThan(0);
  expect(Object.keys(counts).toSorted()).toEqual(names.toSorted());
  expect(await server.idle()).toMatchObject({ status: 'ok', running: 0, waiting: 0 });
  expect(await victim()).toBe(undisturbed);
});
