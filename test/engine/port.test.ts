import { MessageChannel } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { ThreadPort } from '../../src/engine/port.js';
import type { CommandBatch } from '../../src/engine/protocol.js';

const channels: MessageChannel[] = [];
afterEach(() => {
  for (const { port1 } of channels.splice(0)) port1.close();
});

function connect() {
  const channel = new MessageChannel();
  channels.push(channel);
  const post = (request: number) => channel.port1.postMessage({ commands: [{ kind: 'abort', request }] });
  const port = new ThreadPort(channel.port2);
  const receiveAll = () => {
    const requests: unknown[] = [];
    for (let batch = port.receive(); batch !== undefined; batch = port.receive()) {
      requests.push(...batch.commands.map((command) => (command.kind === 'abort' ? command.request : command.kind)));
    }
    return requests;
  };
  return { channel, port, post, receiveAll };
}

const turnOfEventLoop = () => new Promise((resolve) => setTimeout(resolve, 5));

test('reads what has arrived without a turn of the event loop, and keeps the order across turns', async () => {
  const { post, receiveAll } = connect();
  post(1);
  post(2);
  await turnOfEventLoop();
  post(3);
  expect(receiveAll()).toEqual([1, 2, 3]);
  expect(receiveAll()).toEqual([]);
});

test('waits until something is there, and not at all when it is there already', async () => {
  const { port, post, receiveAll } = connect();
  let woken = false;
  const waiting = port.wait().then(() => {
    woken = true;
  });
  await turnOfEventLoop();
  expect(woken).toBe(false);
  post(1);
  await waiting;
  await port.wait();
  expect(receiveAll()).toEqual([1]);
});

test('waits no longer than it is told to, and is woken before by what arrives', async () => {
  const { port, post, receiveAll } = connect();
  const start = performance.now();
  await port.wait(0.03);
  expect(performance.now() - start).toBeGreaterThan(25);
  const waiting = port.wait(60);
  post(1);
  await waiting;
  expect(receiveAll()).toEqual([1]);
});

test('looks for a shutdown without losing what came with it', async () => {
  const { channel, port, post, receiveAll } = connect();
  post(1);
  expect(port.shutdownRequested).toBe(false);
  post(2);
  channel.port1.postMessage({ commands: [{ kind: 'shutdown' }] } satisfies CommandBatch);
  expect(port.shutdownRequested).toBe(true);
  expect(receiveAll()).toEqual([1, 2, 'shutdown']);
});

test('sends to the other side', async () => {
  const { channel, port } = connect();
  const received = new Promise((resolve) => channel.port1.once('message', resolve));
  port.send({ kind: 'progress', phase: 'weights', fraction: 0.5 });
  expect(await received).toEqual({ kind: 'progress', phase: 'weights', fraction: 0.5 });
});
