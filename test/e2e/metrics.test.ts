/** /metrics of a whole server under load: against the load tester's figures, through a real Prometheus, after aborts. */
import http from 'node:http';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { interTokenLatencies, type RequestRecord, timePerOutputToken } from '../../src/loadgen/record.js';
import { runLoad } from '../../src/loadgen/run.js';
import { makeAgent, makeTarget } from '../../src/loadgen/target.js';
import { Workload } from '../../src/loadgen/workload.js';
import { childServer } from '../support/child-server.js';
import { panelQueries } from '../support/dashboard.js';
import { type Scrape, scrape } from '../support/exposition.js';
import { lint, Prometheus, prometheusIsMissing } from '../support/prometheus.js';
import { temporaryDirectory } from '../support/temporary.js';

const server = childServer(['--kv-cache-memory', '256MiB', '--served-model-name', 'bundled']);

/** The growth of a metric between two scrapes. */
function growth(before: Scrape, after: Scrape, name: string, labels: Readonly<Record<string, string>> = {}): number {
  return after.value(name, labels) - before.value(name, labels);
}

const reasons = ['stop', 'length', 'abort', 'error'];
function endings(before: Scrape, after: Scrape): Record<string, number> {
  const grown = (reason: string) => growth(before, after, 'vllm:request_success_total', { finished_reason: reason });
  return Object.fromEntries(reasons.map((reason) => [reason, grown(reason)]));
}

/** A busy machine computes slowly; what is checked does not depend on it. */
const timeout = 300_000;
vi.setConfig({ testTimeout: timeout });

const concurrency = 4;
const requests = 24;

/** Offers a load; the first requests open the connections and are left out. */
async function offerLoad(seed: number): Promise<{ records: readonly RequestRecord[]; before: Scrape; after: Scrape }> {
  const target = makeTarget(server.url, undefined);
  const agent = makeAgent(target);
  const workload = new Workload({
    model: 'bundled',
    endpoint: 'completions',
    seed,
    promptTokens: { kind: 'uniform', low: 32, high: 96 },
    outputTokens: { kind: 'uniform', low: 8, high: 24 },
    sharedPrefixTokens: 0,
    promptAs: 'ids',
    tokenIds: { low: 1000, high: 20_000 },
    ignoreEos: true,
    continuousUsage: true,
    extraBody: {},
  });
  const options = { target, agent, workload, seed, timeout, signal: new AbortController().signal };
  const load = { kind: 'closed', concurrency } as const;
  await runLoad(load, { ...options, limit: { requests: concurrency } }, 'warm-up');
  const before = await scrape(server.url);
  const { records } = await runLoad(load, { ...options, limit: { requests } });
  const after = await scrape(server.url);
  agent.destroy();
  return { records, before, after };
}

describe('metrics and the load tester', () => {
  // Both see the same tokens, but this process waits for a processor at other moments than the server does.
  it('agree: on counts exactly, on times within 5 %', { retry: 2 }, async () => {
    const { records, before, after } = await offerLoad(Date.now());
    const answers = records.map(({ answer }) => answer!);
    expect(answers).toHaveLength(requests);
    const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
    const grown = (name: string) => growth(before, after, `vllm:${name}`);

    expect(endings(before, after)).toEqual({ stop: 0, length: requests, abort: 0, error: 0 });
    expect(grown('prompt_tokens_total')).toBe(sum(answers.map(({ promptTokens }) => promptTokens!)));
    expect(grown('generation_tokens_total')).toBe(sum(answers.map(({ outputTokens }) => outputTokens)));
    expect(grown('request_prompt_tokens_sum')).toBe(grown('prompt_tokens_total'));
    expect(grown('request_generation_tokens_sum')).toBe(grown('generation_tokens_total'));
    for (const stage of ['queue', 'prefill', 'decode', 'inference']) {
      expect([stage, grown(`request_${stage}_time_seconds_count`)]).toEqual([stage, requests]);
    }

    const seconds: Record<string, number[]> = {
      time_to_first_token_seconds: answers.map(({ ttft }) => ttft / 1000),
      inter_token_latency_seconds: answers.flatMap(interTokenLatencies).map((ms) => ms / 1000),
      request_time_per_output_token_seconds: answers.map((answer) => timePerOutputToken(answer)! / 1000),
      e2e_request_latency_seconds: answers.map(({ e2e }) => e2e / 1000),
    };
    for (const [name, values] of Object.entries(seconds)) {
      expect([name, grown(`${name}_count`)]).toEqual([name, values.length]);
      const ratio = grown(`${name}_sum`) / sum(values);
      expect(Math.abs(ratio - 1), `${name}: ${ratio} of the load tester's sum`).toBeLessThan(0.05);
    }
  });
});

describe.skipIf(prometheusIsMissing)('a real Prometheus', () => {
  const folder = temporaryDirectory();
  let prometheus: Prometheus;
  beforeAll(async () => {
    prometheus = await Prometheus.start(new URL(server.url).host, folder);
  });
  afterAll(() => prometheus?.stop());

  it('scrapes the server under load, and has its figures', async () => {
    await prometheus.until('it has scraped', async () => (await prometheus.query('up')) === 1);
    const { after } = await offerLoad(1);
    const generated = after.value('vllm:generation_tokens_total');
    await prometheus.until(
      'it has the last figures',
      async () => (await prometheus.query('vllm:generation_tokens_total')) === generated,
    );
    expect(await prometheus.target()).toMatchObject({ health: 'up', lastError: '' });
    expect(await prometheus.query('min_over_time(up[5m])')).toBe(1);
    expect(await prometheus.query('count_over_time(up[5m])')).toBeGreaterThan(2);
    expect(await prometheus.query('scrape_samples_scraped')).toBe(after.series().length);
    expect(await prometheus.query('max_over_time(vllm:num_requests_running[5m])')).toBe(concurrency);
    expect(await prometheus.query('max_over_time(vllm:kv_cache_usage_perc[5m])')).toBeGreaterThan(0);
    const quantile = 'histogram_quantile(0.9, sum by (le) (vllm:time_to_first_token_seconds_bucket))';
    expect(await prometheus.query(quantile)).toBeGreaterThan(0);
    expect(await prometheus.query('sum(vllm:request_success_total)')).toBe(after.sum('vllm:request_success_total'));
  });

  it.each(panelQueries)('answers the dashboard: $panel, $expression', async ({ expression }) => {
    expect(await prometheus.query(`count(${expression})`)).toBeGreaterThan(0);
  });

  it('has nothing against the format, and against names only what is vLLM’s', async () => {
    const complaints = lint((await scrape(server.url)).text);
    const foreign = complaints.filter(
      (line) =>
        !/^vllm:\S+ metric names should not contain ':'$/.test(line) &&
        line !== 'vllm:iteration_tokens_total non-counter metrics should not have "_total" suffix',
    );
    expect(foreign).toEqual([]);
    expect(complaints.length).toBeGreaterThan(0);
  });
});

describe('200 requests that were aborted (case 77, vllm#55634, vllm#31503)', () => {
  const agent = new http.Agent({ keepAlive: false });
  afterAll(() => agent.destroy());

  /** Sends a request that would run for minutes; `first` settles with the first bytes of its answer. */
  function begin(index: number) {
    const prompt = Array.from({ length: 8 }, (_, i) => 1000 + index * 8 + i);
    const body = JSON.stringify({ prompt, max_tokens: 4000, ignore_eos: true, stream: true });
    const headers = { 'Content-Type': 'application/json', 'Content-Length': body.length };
    const request = http.request(`${server.url}/v1/completions`, { method: 'POST', agent, headers });
    const first = new Promise<void>((resolve, reject) => {
      request.on('response', (response) => {
        response.once('data', () => resolve());
        response.on('error', () => {});
      });
      request.on('error', reject);
    });
    first.catch(() => {});
    request.end(body);
    return { first, leave: () => request.destroy() };
  }

  it('are counted as such, and leave every gauge at 0', async () => {
    const before = await scrape(server.url);
    const begun = Array.from({ length: 200 }, (_, index) => begin(index));
    // 64 run at most: some have had tokens, most wait for their first.
    await Promise.race(begun.map(({ first }) => first));
    const active = async () => {
      const now = await scrape(server.url);
      return now.value('vllm:num_requests_running') + now.value('vllm:num_requests_waiting');
    };
    while ((await active()) < 200) await new Promise((resolve) => setTimeout(resolve, 50));
    const busy = await scrape(server.url);
    expect(busy.value('vllm:num_requests_running')).toBeGreaterThan(0);
    expect(busy.value('vllm:num_requests_waiting')).toBeGreaterThan(100);
    expect(busy.value('vllm:kv_cache_usage_perc')).toBeGreaterThan(0);

    for (const { leave } of begun) leave();
    await expect.poll(active, { timeout: 60_000 }).toBe(0);
    await server.idle();

    const after = await scrape(server.url);
    const gauges = [...after.families.values()].filter(
      ({ name, type }) => type === 'gauge' && /^(vllm:|sluice_)/.test(name) && name !== 'vllm:cache_config_info',
    );
    expect(gauges.map(({ name }) => name).sort()).toEqual([
      'sluice_kv_cache_waste_ratio',
      'sluice_step_overdue_seconds',
      'vllm:kv_cache_usage_perc',
      'vllm:num_requests_running',
      'vllm:num_requests_waiting',
    ]);
    for (const { name, samples } of gauges) expect([name, samples.map(({ value }) => value)]).toEqual([name, [0]]);

    expect(endings(before, after)).toEqual({ stop: 0, length: 0, abort: 200, error: 0 });
    for (const name of ['e2e_request_latency_seconds', 'request_prompt_tokens', 'request_generation_tokens']) {
      expect([name, growth(before, after, `vllm:${name}_count`)]).toEqual([name, 200]);
    }
    expect(growth(before, after, 'vllm:request_queue_time_seconds_count')).toBe(200);
    const generated = growth(before, after, 'vllm:generation_tokens_total');
    expect(generated).toBeGreaterThan(0);
    expect(growth(before, after, 'vllm:request_generation_tokens_sum')).toBe(generated);
    const left = { handler: '/v1/completions', status: '499' };
    expect(after.sum('http_requests_total', left) - before.sum('http_requests_total', left)).toBe(200);
  });
});
