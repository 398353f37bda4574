/** POST /v1/requests/{id}/cancel: whoever sees a request's id may end it, and its client keeps what there is. */
import { describe, expect, it } from 'vitest';
import { byteTokens, word } from '../support/fake-text.js';
import { type Json, streamed, type TestApp, testApp, until } from '../support/server.js';

/** An engine that gives `steps` tokens and then none. */
function stuckAfter(steps: number): TestApp {
  return testApp({
    reply: () => [word('one'), word(' two'), ...byteTokens('🎉'), ...Array(50).fill(word(' three'))],
    beforeStep: (step) => (step < steps ? undefined : new Promise<void>(() => {})),
  });
}

const named = (id: string): RequestInit => ({ headers: { 'X-Request-Id': id } });

async function cancel(app: TestApp, id: string): Promise<[status: number, body: Json]> {
  const response = await app.post(`/v1/requests/${id}/cancel`, '');
  return [response.status, await response.json()];
}

describe('a cancelled request', () => {
  it.each(['/v1/completions', '/v1/chat/completions'])('%s, whole, is answered with what there is', async (path) => {
    const app = stuckAfter(4);
    const body = { prompt: 'Hello', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 40, logprobs: null };
    const pending = app.post(path, body, named('mine'));
    await until(() => app.engine.steps === 4, 'the engine is stuck');
    expect(await cancel(app, 'mine')).toEqual([200, { id: 'mine', object: 'request.cancelled', cancelled: 1 }]);
    const json: Json = await (await pending).json();
    // The character that the last two tokens began is told as one that is incomplete.
    expect(json.choices[0].text ?? json.choices[0].message.content).toBe('one two\ufffd');
    expect(json.choices[0].finish_reason).toBe('abort');
    expect(json.usage.completion_tokens).toBe(4);
    expect([app.engine.running, app.engine.aborted]).toEqual([0, 1]);
    expect(app.records.find((record) => record.id === 'mine')).toMatchObject({ status: 200, finish: 'abort' });
  });

  it('streamed, ends as any other', async () => {
    const app = stuckAfter(2);
    const body = { prompt: 'Hello', n: 2, stream: true, logprobs: 0, stream_options: { include_usage: true } };
    const response = await app.post('/v1/completions', body, named('mine'));
    await until(() => app.engine.steps === 2, 'the engine is stuck');
    await cancel(app, 'mine');
    const chunks = await streamed(response);
    const choices = chunks.flatMap((chunk) => chunk.choices);
    for (const index of [0, 1]) {
      const own = choices.filter((choice) => choice.index === index);
      expect(own.map((choice) => choice.text).join('')).toBe('one two');
      expect(own.flatMap((choice) => choice.logprobs.tokens).join('')).toBe('one two');
      expect(own.map((choice) => choice.finish_reason).filter(Boolean)).toEqual(['abort']);
    }
    expect(chunks.at(-1).usage.completion_tokens).toBe(4);
  });

  it('is found by the id of its answer, before its first token, and with several prompts', async () => {
    for (const [path, prefix] of [
      ['/v1/completions', 'cmpl-'],
      ['/v1/chat/completions', 'chatcmpl-'],
    ] as const) {
      const app = stuckAfter(0);
      const body = { prompt: ['Hello', ' one'], messages: [{ role: 'user', content: 'Hello' }], stream: true };
      const pending = app.post(path, body, named('abc'));
      await until(() => app.engine.running > 0, 'it runs');
      expect((await cancel(app, `${prefix}abc`))[0]).toBe(200);
      const chunks = await streamed(await pending);
      const reasons = chunks.flatMap((chunk) => chunk.choices).map((choice: Json) => choice.finish_reason);
      expect(reasons.filter(Boolean)).toEqual(path.includes('chat') ? ['abort'] : ['abort', 'abort']);
    }
  });

  it('is one of several of the same id: all end', async () => {
    const app = stuckAfter(1);
    const pending = [1, 2].map(() => app.post('/v1/completions', { prompt: 'Hello' }, named('twice')));
    await until(() => app.engine.running === 2, 'both run');
    expect((await cancel(app, 'twice'))[1].cancelled).toBe(2);
    for (const response of await Promise.all(pending)) expect(response.status).toBe(200);
  });
});

describe('what is not running', () => {
  it('cannot be cancelled: 404', async () => {
    const app = testApp();
    await app.post('/v1/completions', { prompt: 'Hello' }, named('done'));
    for (const id of ['done', 'never', '__proto__']) {
      const [status, body] = await cancel(app, id);
      expect([status, body.error.code]).toEqual([404, 'request_not_found']);
    }
  });
});
