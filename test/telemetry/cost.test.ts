/** Metrics and log together cost a step of 64 sequences far less than 1 % of the fastest step that there is. */
import { Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import type { ChoiceOutput, EngineInfo, EngineStats } from '../../src/engine/protocol.js';
import { createLogger, logRequest } from '../../src/telemetry/logs.js';
import { ServerMetrics } from '../../src/telemetry/metrics.js';

const sequences = 64;
/** Microseconds: a step of 64 sequences of the bundled model takes longer on two cores. */
const shortStep = 50_000;

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1]!;
}

describe('the cost of measuring', () => {
  it('is some microseconds a step, with a token of every sequence and a request that ends', () => {
    const metrics = new ServerMetrics({ model: 'm', stepOverdue: () => 0 });
    metrics.ready({ maxModelLen: 8192, blockSize: 32, numBlocks: 100 } as EngineInfo);
    const outputs: ChoiceOutput[] = Array.from({ length: sequences }, (_, request) => ({
      request,
      choice: 0,
      tokens: [1],
    }));
    const stats = {
      running: sequences,
      decodeTokens: sequences,
      sequences,
      scheduleTime: 0,
      modelTime: 0,
      sampleTime: 0,
    };
    const logger = createLogger({
      level: 'info',
      pretty: false,
      stream: new Writable({ write: (_chunk, _encoding, done) => done() }),
    });
    const begin = () => metrics.begin(performance.now(), 100)!;
    const meters = outputs.map(begin);
    const costs: number[] = [];
    for (let step = 1; step <= 2000; step++) {
      const start = performance.now();
      metrics.step({ ...stats, prefillTokens: 0, steps: step } as EngineStats, outputs);
      const now = performance.now();
      for (const meter of meters) meter.output(1, now);
      // One sequence in each step ends, and another takes its place.
      meters[step % sequences]!.end('stop', now);
      meters[step % sequences] = begin();
      const record = { id: 'id', method: 'POST', path: '/v1/completions', handler: '/v1/completions', start: 0 };
      const ended = { ...record, status: 200, streamed: true, promptTokens: 100, completionTokens: 64, duration: 1000 };
      metrics.http(ended);
      logRequest(logger, ended);
      costs.push((performance.now() - start) * 1000);
    }
    metrics.close();
    expect(median(costs)).toBeLessThan(0.002 * shortStep);
  });
});
