import { afterEach, describe, expect, it } from 'vitest';
import type { ChoiceOutput, ChoiceTimings, EngineInfo, EngineStats } from '../../src/engine/protocol.js';
import { ServerMetrics } from '../../src/telemetry/metrics.js';
import { Scrape } from '../support/exposition.js';

const info: EngineInfo = {
  device: 'cpu',
  deviceDescription: 'none',
  precision: 'int8',
  vocabSize: 100,
  maxModelLen: 2048,
  blockSize: 16,
  numBlocks: 40,
  kvCacheBytes: 1,
  kvCacheDtype: 'float32',
  mixedSteps: true,
};

function statsOf(changes: Partial<EngineStats>): EngineStats {
  return {
    time: 0,
    running: 0,
    waiting: 0,
    blocksUsed: 0,
    blocksTotal: 40,
    emptySlots: 0,
    sequences: 0,
    prefillTokens: 0,
    decodeTokens: 0,
    decodePairs: 0,
    prefillPairs: 0,
    scheduleTime: 0,
    modelTime: 0,
    sampleTime: 0,
    steps: 0,
    preemptions: 0,
    prefixQueries: 0,
    prefixHits: 0,
    ...changes,
  };
}

function finished(timings: Partial<ChoiceTimings>): ChoiceOutput {
  const times = { arrival: 100, firstScheduled: undefined, firstToken: undefined, finished: 110, preemptions: 0 };
  return { request: 1, choice: 0, tokens: [], finish: 'stop', timings: { ...times, ...timings } };
}

const made: ServerMetrics[] = [];
function metricsOf(model = 'tiny', stepOverdue = () => 0) {
  const metrics = new ServerMetrics({ model, stepOverdue });
  made.push(metrics);
  return metrics;
}
async function scraped(metrics: ServerMetrics): Promise<Scrape> {
  return new Scrape(await metrics.text());
}
afterEach(() => {
  for (const metrics of made.splice(0)) metrics.close();
});

describe('metrics of the engine', () => {
  it('have the state after the last step', async () => {
    const metrics = metricsOf('tiny', () => 1.5);
    metrics.ready(info);
    metrics.step(statsOf({ running: 3, waiting: 2, blocksUsed: 10, emptySlots: 40, steps: 1, preemptions: 4 }), []);
    const prefix = { prefixQueries: 100, prefixHits: 60 };
    metrics.step(statsOf({ running: 2, waiting: 1, blocksUsed: 10, emptySlots: 40, steps: 2, ...prefix }), []);
    const now = await scraped(metrics);
    const labels = { model_name: 'tiny', engine: '0' };
    expect(now.value('vllm:num_requests_running', labels)).toBe(2);
    expect(now.value('vllm:num_requests_waiting', labels)).toBe(1);
    expect(now.value('vllm:kv_cache_usage_perc', labels)).toBe(0.25);
    // 40 of the 160 slots that are held.
    expect(now.value('sluice_kv_cache_waste_ratio', labels)).toBe(0.25);
    expect(
      now.value('vllm:cache_config_info', {
        ...labels,
        block_size: '16',
        cache_dtype: 'float32',
        num_gpu_blocks: '40',
      }),
    ).toBe(1);
    expect(now.value('vllm:prefix_cache_queries_total', labels)).toBe(100);
    expect(now.value('vllm:prefix_cache_hits_total', labels)).toBe(60);
    expect(now.value('sluice_steps_total', labels)).toBe(2);
    expect(now.value('sluice_step_overdue_seconds', labels)).toBe(1.5);
  });

  it('have every step once, and nothing for messages without one', async () => {
    const metrics = metricsOf();
    metrics.ready(info);
    const times = { scheduleTime: 0.001, modelTime: 0.02, sampleTime: 0.003 };
    metrics.step(statsOf({ steps: 1, sequences: 2, prefillTokens: 30, ...times }), []);
    metrics.step(statsOf({ steps: 2, sequences: 3, prefillTokens: 5, decodeTokens: 2, ...times }), []);
    metrics.step(statsOf({ steps: 2 }), []);
    const now = await scraped(metrics);
    expect(now.value('vllm:iteration_tokens_total_count')).toBe(2);
    expect(now.value('vllm:iteration_tokens_total_sum')).toBe(37);
    expect(now.value('sluice_step_sequences_sum')).toBe(5);
    expect(now.value('sluice_step_time_seconds_sum')).toBeCloseTo(0.048, 9);
    expect(now.value('sluice_step_time_seconds_bucket', { le: '0.03' })).toBe(2);
    expect(now.value('sluice_step_rows_total', { kind: 'prefill' })).toBe(35);
    expect(now.value('sluice_step_rows_total', { kind: 'decode' })).toBe(2);
    expect(now.value('sluice_step_seconds_total', { part: 'model' })).toBeCloseTo(0.04, 9);
    expect(now.value('sluice_step_seconds_total', { part: 'sample' })).toBeCloseTo(0.006, 9);
  });

  it('have the stages of finished sequences, as far as they came', async () => {
    const metrics = metricsOf();
    metrics.ready(info);
    metrics.step(statsOf({ steps: 1 }), [
      finished({ firstScheduled: 102, firstToken: 103 }),
      finished({ firstScheduled: 101 }),
      finished({}),
    ]);
    const now = await scraped(metrics);
    const stage = (name: string) => [
      now.value(`vllm:request_${name}_time_seconds_count`),
      now.value(`vllm:request_${name}_time_seconds_sum`),
    ];
    expect(stage('queue')).toEqual([3, 2 + 1 + 10]);
    expect(stage('inference')).toEqual([2, 8 + 9]);
    expect(stage('prefill')).toEqual([1, 1]);
    expect(stage('decode')).toEqual([1, 7]);
  });

  it('escape the name of the model (case 78, llama.cpp#17384)', async () => {
    const name = 'a"b\\c\nd';
    const metrics = metricsOf(name);
    metrics.ready(info);
    expect((await scraped(metrics)).value('vllm:num_requests_running', { model_name: name })).toBe(0);
  });

  it('are there, valid, while the model loads', async () => {
    const now = await scraped(metricsOf());
    expect(now.value('vllm:num_requests_waiting')).toBe(0);
    expect(now.families.has('vllm:cache_config_info')).toBe(false);
  });

  it('tell of the process and its event loop', async () => {
    const metrics = metricsOf();
    await new Promise((resolve) => setTimeout(resolve, 100));
    const now = await scraped(metrics);
    expect(now.value('process_resident_memory_bytes')).toBeGreaterThan(10 * 2 ** 20);
    expect(now.value('process_cpu_seconds_total')).toBeGreaterThan(0);
    expect(Math.abs(now.value('process_start_time_seconds') - Date.now() / 1000)).toBeLessThan(3600);
    expect(now.value('sluice_event_loop_delay_seconds_count')).toBeGreaterThanOrEqual(3);
  });
});
