/** The log: one line a request, numbers only. */
import { Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import type { LogLevel } from '../../src/telemetry/levels.js';
import { createLogger, logRequest } from '../../src/telemetry/logs.js';
import type { RequestRecord } from '../../src/telemetry/request-record.js';

const record: RequestRecord = {
  id: 'abc',
  method: 'POST',
  path: '/v1/completions',
  handler: '/v1/completions',
  start: 1000,
  status: 200,
  streamed: true,
  promptTokens: 3,
  completionTokens: 5,
  cachedTokens: 1,
  firstToken: 12.345,
  timePerToken: 20.04,
  finish: 'stop',
  duration: 99.99,
};

function logged(level: LogLevel, pretty: boolean, ...records: RequestRecord[]): string {
  let text = '';
  const stream = new Writable({
    write(chunk, _, done) {
      text += chunk;
      done();
    },
  });
  const logger = createLogger({ level, pretty, stream });
  for (const item of records) logRequest(logger, item);
  return text;
}

describe('the log', () => {
  it('has a line of JSON for each request', () => {
    const [line, ...rest] = logged('info', false, record).trim().split('\n');
    expect(rest).toEqual([]);
    expect(JSON.parse(line!)).toEqual({
      level: 30,
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      request: 'abc',
      status: 200,
      ms: 100,
      stream: true,
      prompt_tokens: 3,
      cached_tokens: 1,
      completion_tokens: 5,
      first_token_ms: 12.3,
      ms_per_token: 20,
      finish: 'stop',
      msg: 'POST /v1/completions',
    });
  });

  it('has prompts and answers where the record has them', () => {
    const content = { prompts: ['Hello'], answers: [' one', ' two'] };
    expect(JSON.parse(logged('info', false, { ...record, content }))).toMatchObject(content);
  });

  it('leaves out probes unless asked for', () => {
    const probe = {
      id: 'p',
      method: 'GET',
      path: '/health',
      handler: '/health',
      start: 0,
      status: 200,
      streamed: false,
    };
    expect(logged('info', false, probe)).toBe('');
    expect(logged('debug', false, probe)).toContain('GET /health');
    // While the model loads, probes get 503, as they should.
    expect(logged('info', false, { ...probe, status: 503 })).toBe('');
  });

  it('has errors of the server with their cause, those of callers without', () => {
    const own = logged('error', false, { ...record, status: 500, error: 'failed', cause: new Error('why') });
    expect(JSON.parse(own)).toMatchObject({ level: 50, error: 'failed', err: { message: 'why' } });
    expect(logged('error', false, { ...record, status: 400, error: "'n' must be" })).toBe('');
    expect(logged('info', false, { ...record, status: 400, error: "'n' must be" })).toContain("'n' must be");
  });

  it('is readable in a terminal', () => {
    const text = logged('info', true, record);
    expect(text).toContain('POST /v1/completions');
    expect(text).not.toContain('{"level"');
    expect(text.trim().split('\n')).toHaveLength(1);
  });
});
