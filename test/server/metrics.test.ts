/** Metrics of requests, through the application: every request is counted once, under names that tools look for. */
import { afterEach, describe, expect, it } from 'vitest';
import { ServerMetrics } from '../../src/telemetry/metrics.js';
import { Scrape } from '../support/exposition.js';
import { word } from '../support/fake-text.js';
import { type TestSetup, testApp } from '../support/server.js';

const made: ServerMetrics[] = [];
afterEach(() => {
  for (const metrics of made.splice(0)) metrics.close();
});

function measuredApp(setup: TestSetup = {}) {
  const metrics = new ServerMetrics({ model: 'fake-model', stepOverdue: () => 0 });
  made.push(metrics);
  const parts = testApp({ ...setup, metrics });
  const scraped = async () => new Scrape(await (await parts.app.fetch(new Request('http://test/metrics'))).text());
  return { ...parts, scraped };
}

const perRequest = ['vllm:e2e_request_latency_seconds', 'vllm:request_prompt_tokens', 'vllm:request_generation_tokens'];
const reasons = ['stop', 'length', 'abort', 'error'];

/** Requests ended by reason, which every per-request histogram must agree with. */
function ended(now: Scrape): number[] {
  const counts = reasons.map((reason) => now.value('vllm:request_success_total', { finished_reason: reason }));
  const all = counts.reduce((sum, count) => sum + count);
  for (const name of perRequest) expect([name, now.value(`${name}_count`)]).toEqual([name, all]);
  expect(now.value('vllm:request_generation_tokens_sum')).toBe(now.value('vllm:generation_tokens_total'));
  return counts;
}

const answer = [word('one'), word(' two'), word(' three'), word(' four')];

describe('/metrics', () => {
  it('has the names, types and buckets that tools look for', async () => {
    const { app, scraped } = measuredApp({ maxModelLen: 8192 });
    const response = await app.fetch(new Request('http://test/metrics'));
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    const now = await scraped();
    for (const [name, type] of [
      ['vllm:num_requests_waiting', 'gauge'],
      ['vllm:num_requests_running', 'gauge'],
      ['vllm:kv_cache_usage_perc', 'gauge'],
      ['vllm:cache_config_info', 'gauge'],
      ['vllm:prompt_tokens_total', 'counter'],
      ['vllm:generation_tokens_total', 'counter'],
      ['vllm:num_preemptions_total', 'counter'],
      ['vllm:prefix_cache_queries_total', 'counter'],
      ['vllm:prefix_cache_hits_total', 'counter'],
      ['vllm:request_success_total', 'counter'],
    ]) {
      expect([name, now.families.get(name!)?.type]).toEqual([name, type]);
    }
    const stages = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680];
    const gaps = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];
    const lengths = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
    const buckets: Record<string, number[]> = {
      time_to_first_token_seconds: [
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
        2560,
      ],
      inter_token_latency_seconds: gaps,
      request_time_per_output_token_seconds: gaps,
      e2e_request_latency_seconds: stages,
      request_queue_time_seconds: stages,
      request_inference_time_seconds: stages,
      request_prefill_time_seconds: stages,
      request_decode_time_seconds: stages,
      iteration_tokens_total: [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
      request_prompt_tokens: lengths,
      request_generation_tokens: lengths,
    };
    for (const [name, bounds] of Object.entries(buckets))
      expect([name, now.bounds(`vllm:${name}`)]).toEqual([name, bounds]);
    for (const { name, samples } of now.families.values()) {
      if (!name.startsWith('vllm:')) continue;
      for (const { labels } of samples) expect(labels).toMatchObject({ model_name: 'fake-model', engine: '0' });
    }
  });

  it.each([true, false])('counts tokens, times and endings (stream: %s)', async (stream) => {
    const beforeStep = () => new Promise<void>((resolve) => setTimeout(resolve, 30));
    const { completion, chat, scraped } = measuredApp({ reply: () => answer, beforeStep });
    await (await completion({ prompt: 'Hello world', stream })).text();
    await (await completion({ prompt: 'Hello', max_tokens: 2, stream })).text();
    await (await chat({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1, stream })).text();
    const now = await scraped();
    expect(ended(now)).toEqual([1, 2, 0, 0]);
    const chatPrompt = now.value('vllm:prompt_tokens_total') - 3;
    expect(chatPrompt).toBeGreaterThan(1);
    expect(now.value('vllm:request_prompt_tokens_sum')).toBe(3 + chatPrompt);
    // Four tokens and the end token; two; one.
    expect(now.value('vllm:generation_tokens_total')).toBe(8);
    expect(now.value('vllm:time_to_first_token_seconds_count')).toBe(3);
    expect(now.value('vllm:inter_token_latency_seconds_count')).toBe(4 + 1);
    expect(now.value('vllm:request_time_per_output_token_seconds_count')).toBe(2);
    const gaps = now.value('vllm:inter_token_latency_seconds_sum');
    expect(gaps).toBeGreaterThan(5 * 0.029);
    const first = now.value('vllm:time_to_first_token_seconds_sum');
    expect(first).toBeGreaterThan(3 * 0.029);
    expect(now.value('vllm:e2e_request_latency_seconds_sum')).toBeCloseTo(first + gaps, 6);
  });

  it('divides a gap among tokens that came together, as the load tester does', async () => {
    const { completion, scraped } = measuredApp({ reply: () => answer, tokensPerStep: 2 });
    await (await completion({ max_tokens: 4 })).text();
    const now = await scraped();
    // The first two tokens came at once: their time is that to the first token.
    expect(now.value('vllm:inter_token_latency_seconds_count')).toBe(2);
    expect(now.value('vllm:generation_tokens_total')).toBe(4);
  });

  it('counts each choice of each prompt as a request', async () => {
    const { completion, scraped } = measuredApp({ reply: (_, choice) => answer.slice(choice) });
    await (await completion({ prompt: ['Hello', 'Hello world'], n: 2, max_tokens: 4 })).text();
    const now = await scraped();
    // Choice 0 has four words, which is the limit; choice 1 three and the end token.
    expect(ended(now)).toEqual([2, 2, 0, 0]);
    expect(now.value('vllm:prompt_tokens_total')).toBe(2 * (1 + 2));
    expect(now.value('vllm:generation_tokens_total')).toBe(16);
  });

  it('counts an answer without tokens, and a stop string as stop', async () => {
    const { completion, scraped } = measuredApp({ reply: () => answer });
    await (await completion({ max_tokens: 0, echo: true })).text();
    await (await completion({ stop: ' three' })).text();
    const now = await scraped();
    expect(ended(now)).toEqual([1, 1, 0, 0]);
    expect(now.value('vllm:prompt_tokens_total')).toBe(2);
    expect(now.value('vllm:time_to_first_token_seconds_count')).toBe(1);
  });

  it('counts failures, before the first token and after it, and those of other prompts that go with them', async () => {
    const failing = measuredApp({ reply: () => answer, failAt: { step: 2, code: 'step_failed' } });
    expect((await failing.completion({})).status).toBe(500);
    await (await failing.completion({ stream: true })).text();
    await failing.completion({ prompt: ['Hello', 'Hello'] });
    const now = await failing.scraped();
    expect(ended(now)).toEqual([0, 0, 0, 4]);
    const refusing = measuredApp({ failAt: { step: 0, code: 'queue_full' } });
    expect((await refusing.completion({})).status).toBe(429);
    expect(ended(await refusing.scraped())).toEqual([0, 0, 0, 1]);
  });

  it('counts aborts in the per-request metrics, too (case 77, vllm#55634)', async () => {
    const forever = new Promise<void>(() => {});
    const { completion, scraped, post, engine } = measuredApp({
      reply: () => answer,
      beforeStep: (step) => (step === 2 ? forever : undefined),
    });
    const before = await scraped();
    for (let i = 0; i < 3; i++) {
      const reader = (await completion({ stream: true })).body!.getReader();
      await reader.read();
      await reader.cancel();
    }
    const controllers = [new AbortController(), new AbortController()];
    const left = controllers.map(({ signal }) => post('/v1/completions', { prompt: 'Hello' }, { signal }));
    await new Promise((resolve) => setTimeout(resolve, 20));
    for (const controller of controllers) controller.abort();
    await Promise.allSettled(left);
    while (engine.running > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    const now = await scraped();
    expect(ended(now)).toEqual([0, 0, 5, 0]);
    expect(now.value('vllm:generation_tokens_total')).toBe(10);
    expect(now.series()).toEqual(expect.arrayContaining(before.series()));
  });

  it('counts what was cancelled by id as aborted, with the tokens it had', async () => {
    const forever = new Promise<void>(() => {});
    const { completion, post, scraped } = measuredApp({
      reply: () => answer,
      beforeStep: (step) => (step === 2 ? forever : undefined),
    });
    const response = await completion({ stream: true, request_id: 'mine' });
    expect((await post('/v1/requests/mine/cancel', {})).status).toBe(200);
    await response.text();
    const now = await scraped();
    expect(ended(now)).toEqual([0, 0, 1, 0]);
    expect(now.value('vllm:generation_tokens_total')).toBe(2);
  });

  it('has no label that a request brought (case 78, headroom#2463)', async () => {
    const { app, completion, scraped } = measuredApp({ reply: () => answer });
    const get = (path: string, method = 'GET') => app.fetch(new Request(`http://test${path}`, { method }));
    await completion({});
    await completion({ model: 'first' });
    await get('/first');
    await get('/first', 'PURGE');
    await scraped();
    const before = await scraped();
    const name = 'a"b\\c\nd';
    expect((await completion({ model: name })).status).toBe(404);
    await completion({ user: name, request_id: name });
    await get(`/${encodeURIComponent(name)}`);
    await get('/v1/models/some-other-model');
    await get('/peculiar', 'PROPFIND');
    const after = await scraped();
    expect(after.series()).toEqual(before.series());
    expect(after.text).not.toContain('peculiar');
  });

  it('counts HTTP requests by what answered and how', async () => {
    const { app, completion, scraped } = measuredApp({ reply: () => answer });
    await (await completion({ stream: true })).text();
    await completion({ temperature: -1 });
    await app.fetch(new Request('http://test/health'));
    const now = await scraped();
    const count = (handler: string, method: string, status: string) =>
      now.value('http_requests_total', { handler, method, status });
    expect(count('/v1/completions', 'POST', '200')).toBe(1);
    expect(count('/v1/completions', 'POST', '400')).toBe(1);
    expect(count('/health', 'GET', '200')).toBe(1);
  });

  it('is not there when nothing is measured', async () => {
    const { app } = testApp();
    expect((await app.fetch(new Request('http://test/metrics'))).status).toBe(404);
  });
});
