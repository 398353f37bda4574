/** /openapi.json says what the server does: the same paths, the same bodies, and answers as they are. */
import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { createApp } from '../../src/server/app.js';
import { plainKeys } from '../../src/server/keys/key-file.js';
import { KeyRing } from '../../src/server/keys/key-ring.js';
import * as answers from '../../src/server/openapi/answers.js';
import { ServerMetrics } from '../../src/telemetry/metrics.js';
import { vocabSize, word } from '../support/fake-text.js';
import { type Json, type TestApp, testApp, until } from '../support/server.js';

async function documentOf({ app }: TestApp): Promise<Json> {
  return (await app.request('/openapi.json')).json();
}

describe('/openapi.json', () => {
  it('lists every route there is, and no other', async () => {
    const { deps } = testApp({ config: { resumeWindow: 10 } });
    const metrics = new ServerMetrics({ model: 'fake-model', stepOverdue: () => 0 });
    const app = createApp({ ...deps, metrics });
    const document: Json = await (await app.request('/openapi.json')).json();
    const listed = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const routes = app.routes
      .filter(({ method, path }) => method !== 'ALL' && path !== '/')
      .map(({ method, path }) => `${method} ${path.replace(/:(\w+)(\{.+?\})?/g, '{$1}')}`);
    expect(listed.toSorted()).toEqual([...new Set(routes)].toSorted());
  });

  it('leaves out what is switched off', async () => {
    const { paths } = await documentOf(testApp());
    expect(paths).not.toHaveProperty('/v1/streams/{id}');
    expect(paths).not.toHaveProperty('/metrics');
  });

  it('asks for a key where keys are asked for', async () => {
    const { paths, components } = await documentOf(testApp({ keys: new KeyRing(plainKeys(['k'])) }));
    expect(components.securitySchemes.key).toEqual({ type: 'http', scheme: 'bearer' });
    expect(paths['/v1/completions'].post.security).toEqual([{ key: [] }]);
    expect(paths['/v1/completions'].post.responses).toHaveProperty('401');
    expect(paths['/health'].get).not.toHaveProperty('security');
    const open = await documentOf(testApp());
    expect(open.paths['/v1/completions'].post.responses).not.toHaveProperty('401');
  });

  it('has the ranges that are checked', async () => {
    const { paths } = await documentOf(testApp());
    const { properties, required } = paths['/v1/completions'].post.requestBody.content['application/json'].schema;
    expect(required).toEqual(['prompt']);
    expect(properties.prompt.anyOf.map((form: Json) => form.items?.type ?? form.type)).toEqual([
      'string',
      'string',
      'integer',
      'array',
    ]);
    expect(properties.model).toEqual({ anyOf: [{ const: 'fake-model' }, { type: 'null' }] });
    expect(properties.n.anyOf[0]).toMatchObject({ type: 'integer', minimum: 1, maximum: 128 });
    expect(properties.top_p.anyOf[0]).toMatchObject({ type: 'number', minimum: 0, maximum: 1 });
    expect(properties.stop_token_ids.anyOf[0].items).toEqual({ type: 'integer', minimum: 0, maximum: vocabSize - 1 });
    expect(properties.prompt.anyOf[2].items).toEqual({ type: 'integer', minimum: 0, maximum: vocabSize - 1 });
    expect(properties.seed.anyOf[0]).toMatchObject({ type: 'integer' });
  });
});

/** What a schema keeps of an answer must be all of it. */
function expectToFit(schema: z.ZodType, json: unknown): void {
  expect(schema.parse(json)).toEqual(json);
}

describe('answers fit their schemas', () => {
  const app = testApp({ reply: () => [word('one'), word(' two')] });
  const messages = [{ role: 'user', content: 'Hello' }];
  const answered = async (path: string, body: object): Promise<Json> => {
    const response = await app.post(path, body);
    expect(response.status).toBe(200);
    return response.json();
  };
  const got = async (path: string): Promise<Json> => (await app.app.request(path)).json();

  it('of generations', async () => {
    const everything = { logprobs: 2, prompt_logprobs: 1, return_token_ids: true, echo: true, n: 2, stop: 'two' };
    expectToFit(answers.completionAnswer, await answered('/v1/completions', { prompt: 'Hello' }));
    expectToFit(answers.completionAnswer, await answered('/v1/completions', { prompt: ['a', 'b'], ...everything }));
    expectToFit(answers.chatAnswer, await answered('/v1/chat/completions', { messages }));
    const chat = { messages, ...everything, logprobs: true, top_logprobs: 2 };
    expectToFit(answers.chatAnswer, await answered('/v1/chat/completions', chat));
    expectToFit(answers.responseAnswer, await answered('/v1/responses', { input: 'Hello', top_logprobs: 2 }));
    expectToFit(
      answers.responseAnswer,
      await answered('/v1/responses', { input: 'Hello', max_output_tokens: 1, top_logprobs: 0 }),
    );
  });

  it('of everything else', async () => {
    expectToFit(answers.renderAnswer, await answered('/v1/completions/render', { prompt: 'Hello' }));
    expectToFit(answers.tokenizeAnswer, await answered('/tokenize', { prompt: 'Hello', return_token_strs: true }));
    expectToFit(answers.detokenizeAnswer, await answered('/detokenize', { tokens: [65] }));
    expectToFit(answers.modelsAnswer, await got('/v1/models'));
    expectToFit(answers.modelAnswer, await got('/v1/models/fake-model'));
    expectToFit(answers.healthAnswer, await got('/health'));
    expectToFit(answers.versionAnswer, await got('/version'));
    expectToFit(answers.errorAnswer, await got('/nothing'));
    const stuck = testApp({ beforeStep: () => new Promise<void>(() => {}) });
    void stuck.post('/v1/completions', { prompt: 'Hello' }, { headers: { 'X-Request-Id': 'it' } });
    await until(() => stuck.engine.running === 1, 'it runs');
    expectToFit(answers.cancelAnswer, await (await stuck.post('/v1/requests/it/cancel', '')).json());
  });
});
