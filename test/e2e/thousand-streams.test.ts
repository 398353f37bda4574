/** A thousand streams open at once: none is lost, none gets what is another's, and the HTTP thread stays quick. */
import { once } from 'node:events';
import net from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { childServer, fixtureModel } from '../support/child-server.js';
import { type ControlServer, startControlServer } from '../support/control-server.js';
import { eventData, type Json } from '../support/server.js';

const STREAMS = 1000;
const server = childServer([
  ...['--model', fixtureModel('tiny-llama'), '--precision', 'fp32', '--kv-cache-memory', '128MiB'],
  ...['--max-num-seqs', String(STREAMS), '--max-num-batched-tokens', '1024'],
  // They begin together, so that all are open at once however fast they come.
  ...['--batching', 'static'],
]);
let control: ControlServer;
beforeAll(async () => {
  control = await startControlServer();
});
afterAll(() => control?.stop());

const prompts = Array.from({ length: STREAMS }, (_, i) => [3 + (i % 450), 3 + Math.floor(i / 450), 7, 8, 9]);
const body = { max_tokens: 24, temperature: 0, ignore_eos: true, return_token_ids: true };

/** What is read of a stream; it is looked at only after all have ended, so that reading costs little. */
interface Reading {
  readonly parts: Buffer[];
  readonly begins: Promise<unknown>;
  readonly ended: Promise<unknown>;
}

async function open(index: number): Promise<Reading> {
  const socket = net.connect(Number(new URL(server.url).port), '127.0.0.1');
  const parts: Buffer[] = [];
  socket.on('data', (data) => parts.push(data));
  await once(socket, 'connect');
  const json = JSON.stringify({ ...body, prompt: prompts[index], stream: true });
  const head = `Host: x\r\nX-Request-Id: stream-${index}\r\nConnection: close\r\nContent-Length: ${json.length}`;
  socket.write(`POST /v1/completions HTTP/1.1\r\n${head}\r\n\r\n${json}`);
  return { parts, begins: once(socket, 'data'), ended: once(socket, 'close') };
}

/** The events of an answer in HTTP's chunks, and what is wrong with its head. */
function eventsOf({ parts }: Reading): Json[] {
  const text = Buffer.concat(parts).toString('latin1');
  const [head, ...rest] = text.split('\r\n\r\n');
  expect(head).toMatch(/^HTTP\/1\.1 200 /);
  const chunks = rest.join('\r\n\r\n').split('\r\n');
  const stream = chunks.filter((_, i) => i % 2 === 1).join('');
  const data = eventData(Buffer.from(stream, 'latin1').toString('utf8'));
  expect(data.pop()).toBe('[DONE]');
  return data.map((json) => JSON.parse(json) as Json);
}

async function timed(url: string): Promise<number> {
  const start = performance.now();
  await (await fetch(url)).text();
  return performance.now() - start;
}

const percentile99 = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)]!;

describe(`${STREAMS} streams at once`, () => {
  it('are all complete and all their own, while /health answers within 200 ms', {
    retry: 1,
    timeout: 240_000,
  }, async () => {
    const opening = prompts.map((_, index) => open(index));
    let left = STREAMS;
    let begun = 0;
    let atOnce = 0;
    for (const reading of opening) {
      void reading.then(({ begins, ended }) => {
        void begins.then(() => {
          begun++;
          if (left === STREAMS) atOnce = begun;
        });
        void ended.then(() => left--);
      });
    }
    const health: number[] = [];
    const noise: number[] = [];
    while (left > 0) {
      health.push(await timed(`${server.url}/health`));
      // What a server that does nothing takes at the same time is the machine's own delay, and is allowed on top.
      noise.push(await timed(control.url));
    }
    const readings = await Promise.all(opening);
    const whole = await Promise.all(
      [0, STREAMS / 2].map((from) => server.completion({ ...body, prompt: prompts.slice(from, from + STREAMS / 2) })),
    );
    const expected = whole.flatMap(({ choices }) => choices.map((choice: Json) => choice.token_ids));
    for (const [index, reading] of readings.entries()) {
      const chunks = eventsOf(reading);
      expect(new Set(chunks.map(({ id }) => id))).toEqual(new Set([`cmpl-stream-${index}`]));
      expect(chunks[0].choices[0].prompt_token_ids).toEqual(prompts[index]);
      expect(chunks.flatMap(({ choices }) => choices[0].token_ids)).toEqual(expected[index]);
      expect(chunks.at(-1).choices[0].finish_reason).toBe('length');
    }
    console.log(
      `${atOnce} open at once; /health p99 ${percentile99(health).toFixed(1)} ms of ${health.length}, ` +
        `a server that does nothing ${percentile99(noise).toFixed(1)} ms`,
    );
    expect(atOnce).toBe(STREAMS);
    expect(percentile99(health)).toBeLessThan(200 + percentile99(noise));
    expect(await server.idle()).toMatchObject({ running: 0, waiting: 0 });
  });
});
