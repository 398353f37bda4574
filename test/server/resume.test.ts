/** Streams that are resumed: exactly the rest, wherever they were cut; and what happens when nobody comes back. */
import type { EventSourceMessage } from 'eventsource-parser';
import { afterEach, describe, expect, it } from 'vitest';
import { ResumableStreams } from '../../src/server/resume.js';
import { openEvents } from '../support/event-client.js';
import { byteTokens, longWord, word } from '../support/fake-text.js';
import {
  eventData,
  type Json,
  type TestServer,
  type TestSetup,
  testApp,
  testServer,
  until,
} from '../support/server.js';

const servers: TestServer[] = [];
async function start(setup: TestSetup): Promise<TestServer & { readonly url: string }> {
  const server = await testServer({ ...setup, config: { resumeWindow: 10, ...setup.config } });
  servers.push(server);
  return { ...server, url: server.server.url };
}
afterEach(async () => {
  await Promise.all(servers.splice(0).map(({ server }) => server.kill()));
});

/** A hundred tokens, most of which complete no character. */
const answer = `${'größer 🎉 '.repeat(7)}e.`;
const hundred = (): number[] => byteTokens(answer);
const body = { prompt: 'Hello', max_tokens: 100, stream: true };
const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

function joined(events: readonly EventSourceMessage[]): string {
  expect(events.at(-1)!.data).toBe('[DONE]');
  return events
    .slice(0, -1)
    .map(({ data }) => (JSON.parse(data) as Json).choices[0]?.text ?? '')
    .join('');
}

describe('a resumed stream', () => {
  it('goes on exactly where it was cut, at each of its events', async () => {
    expect(hundred()).toHaveLength(100);
    const server = await start({ reply: hundred, beforeStep: (step) => (step % 3 === 0 ? pause(0) : undefined) });
    const path = `${server.url}/v1/completions`;
    const request = { ...body, return_token_ids: true };
    const whole = await (await openEvents(path, { body: request })).read();
    expect(whole).toHaveLength(101);
    const text = joined(whole);
    expect(text).toBe(answer);
    const numbers = whole.map(({ id }) => Number(id!.split('.')[1]));
    expect(numbers).toEqual(whole.map((_, i) => i + 1));
    for (let count = 0; count <= whole.length; count++) {
      const cut = await openEvents(path, { body: request });
      const stream = cut.headers['x-stream-id'] as string;
      const first = await cut.read(count);
      cut.cut();
      const lastEvent = first.at(-1)?.id ?? `${stream}.0`;
      const again =
        count % 2 === 0
          ? await openEvents(path, { body: request, headers: { 'Last-Event-ID': lastEvent } })
          : await openEvents(`${server.url}/v1/streams/${stream}`, { headers: { 'Last-Event-ID': lastEvent } });
      expect(again.status).toBe(200);
      const rest = await again.read();
      expect(joined([...first, ...rest])).toBe(text);
      expect([...first, ...rest].map(({ id }) => id)).toEqual(numbers.map((number) => `${stream}.${number}`));
    }
    expect(server.engine.requests).toHaveLength(whole.length + 2);
    expect(server.engine.aborted).toBe(0);
  });

  it('can be cut and resumed again and again, also by a reader who takes it over', async () => {
    const server = await start({ reply: hundred, beforeStep: () => pause(1) });
    const path = `${server.url}/v1/chat/completions`;
    const request = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 100, stream: true };
    let reader = await openEvents(path, { body: request });
    const events: EventSourceMessage[] = [];
    for (let round = 0; ; round++) {
      const more = await reader.read(7);
      events.push(...more);
      if (more.length < 7) break;
      if (round % 2 === 0) reader.cut();
      const before = reader;
      reader = await openEvents(path, { body: request, headers: { 'Last-Event-ID': events.at(-1)!.id! } });
      // The one before is dropped, and does not wait for ever.
      await before.read();
    }
    const parts = events.slice(0, -1).map(({ data }) => JSON.parse(data).choices[0].delta.content ?? '');
    expect(parts.join('')).toBe(answer);
    expect(server.engine.requests).toHaveLength(1);
  });

  it('is there from its beginning, and still after its end', async () => {
    const server = await start({ reply: () => [word('one'), word(' two')] });
    const opened = await openEvents(`${server.url}/v1/completions`, { body });
    const events = await opened.read();
    const stream = opened.headers['x-stream-id'];
    const again = await (await openEvents(`${server.url}/v1/streams/${stream}`)).read();
    expect(again).toEqual(events);
    const last = await openEvents(`${server.url}/v1/streams/${stream}`, {
      headers: { 'Last-Event-ID': events.at(-1)!.id! },
    });
    expect(await last.read()).toEqual([]);
  });

  it('tells a failure that came meanwhile', async () => {
    const server = await start({ reply: hundred, failAt: { step: 5, code: 'step_failed' } });
    const opened = await openEvents(`${server.url}/v1/completions`, { body });
    const first = await opened.read(1);
    opened.cut();
    const rest = await (
      await openEvents(`${server.url}/v1/completions`, { body, headers: { 'Last-Event-ID': first[0]!.id! } })
    ).read();
    expect(JSON.parse(rest.at(-2)!.data)).toMatchObject({ error: { code: 'step_failed' } });
    expect(rest.at(-1)!.data).toBe('[DONE]');
  });

  it('keeps its framing: an id, then one line of data', async () => {
    const { completion } = testApp({ reply: () => [word('one')], config: { resumeWindow: 1 } });
    const response = await completion({ stream: true });
    const blocks = (await response.text()).split('\n\n').slice(0, -1);
    const id = response.headers.get('x-stream-id');
    for (const [i, block] of blocks.entries()) {
      expect(block).toMatch(new RegExp(`^id: ${id}\\.${i + 1}\\ndata: [^\\n]+$`));
    }
    expect(blocks).toHaveLength(3);
  });
});

describe('a stream that nobody comes back to', () => {
  it('is aborted when its time is over', async () => {
    const server = await start({
      reply: () => Array(200).fill(word('one')),
      beforeStep: () => pause(5),
      config: { resumeWindow: 0.1 },
    });
    const opened = await openEvents(`${server.url}/v1/completions`, { body: { ...body, max_tokens: 200 } });
    const first = await opened.read(1);
    opened.cut();
    await pause(40);
    expect(server.engine.running).toBe(1);
    await until(() => server.engine.running === 0, 'it is aborted');
    expect(server.engine.aborted).toBe(1);
    await until(() => server.records.length === 1, 'the request is over');
    expect(server.records[0]).toMatchObject({ status: 499, finish: 'abort' });
    const late = await openEvents(`${server.url}/v1/completions`, {
      body,
      headers: { 'Last-Event-ID': first[0]!.id! },
    });
    expect(late.status).toBe(404);
  });

  it('waits once as much is kept as may be, and goes on for a new reader', async () => {
    const server = await start({ reply: () => Array(2000).fill(word(longWord)), maxModelLen: 3000 });
    const opened = await openEvents(`${server.url}/v1/completions`, { body: { ...body, max_tokens: 2000 } });
    const first = await opened.read(1);
    opened.cut();
    let steps = -1;
    while (steps !== server.engine.steps) {
      steps = server.engine.steps;
      await pause(50);
    }
    // 4 Mi characters are kept, and the system's buffers had a few more.
    expect(steps).toBeLessThan(1900);
    const again = await openEvents(`${server.url}/v1/completions`, {
      body,
      headers: { 'Last-Event-ID': first[0]!.id! },
    });
    const rest = await again.read();
    expect(rest).toHaveLength(2000);
    expect(rest.at(-1)!.data).toBe('[DONE]');
    expect(server.engine.aborted).toBe(0);
  });

  it('gives its memory back', async () => {
    const { app } = testApp();
    const streams = new ResumableStreams({ window: 60, perStream: 1000, total: 2500 });
    app.get('/open', (c) => {
      const stream = streams.open(c, '', () => {});
      if (stream === undefined) return c.text('full');
      stream.write(`data: ${'x'.repeat(900)}\n\n`);
      if (c.req.query('end')) stream.end();
      return stream.response;
    });
    const open = async (query = '') => (await app.request(`/open${query}`)).headers.get('x-stream-id');
    const running = await open();
    for (let i = 0; i < 10; i++) expect(await open('?end=1')).toMatch(/^[\w-]{22}$/);
    expect(running).not.toBeNull();
    await open();
    await open();
    expect(await open()).toBeNull();
  });
});

describe('what cannot be resumed', () => {
  it('is a 404: another stream, a number that was not reached, no id at all', async () => {
    const server = await start({ reply: () => [word('one')] });
    const opened = await openEvents(`${server.url}/v1/completions`, { body });
    const events = await opened.read();
    const id = events[0]!.id!.split('.')[0]!;
    for (const lastEvent of [
      'nothing',
      `${'x'.repeat(22)}.1`,
      `${id}.99`,
      `${id}.-1`,
      `${id}.`,
      `${id}.1e3`,
      '1',
      '',
    ]) {
      const response = await fetch(`${server.url}/v1/completions`, {
        method: 'POST',
        body: JSON.stringify(body),
        headers: { 'Last-Event-ID': lastEvent },
      });
      expect([lastEvent, response.status]).toEqual([lastEvent, 404]);
      expect(await response.json()).toMatchObject({ error: { code: 'stream_not_found' } });
    }
    expect(server.engine.requests).toHaveLength(1);
  });

  it('is everything where it is not switched on: no ids, and a plain answer', async () => {
    const { post } = testApp({ reply: () => [word('one')] });
    const response = await post('/v1/completions', body, { headers: { 'Last-Event-ID': `${'x'.repeat(22)}.1` } });
    expect(response.headers.get('x-stream-id')).toBeNull();
    expect(eventData(await response.text()).at(-1)).toBe('[DONE]');
  });
});
