/** NVIDIA's load tester, unmodified, completes a short run: streams, usage and counts are what it expects. */
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fixtureModel } from '../support/child-server.js';
import type { Json } from '../support/server.js';
import { clientServer, key, model } from './support/client-server.js';
import { runPython } from './support/python.js';

const server = clientServer();
const REQUESTS = 24;
const TOKENS = 16;

describe.each(['chat', 'completions'])('aiperf (PyPI) on %s', (endpoint) => {
  it('completes every request, with every token', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-aiperf-'));
    const extra = JSON.stringify({ ignore_eos: true, min_tokens: TOKENS });
    const { code, output } = await runPython(
      'aiperf',
      [
        ...['profile', '--model', model, '--url', server.url, '--endpoint-type', endpoint, '--streaming'],
        ...['--api-key', key, '--concurrency', '4', '--request-count', String(REQUESTS)],
        ...['--synthetic-input-tokens-mean', '32', '--output-tokens-mean', String(TOKENS), '--extra-inputs', extra],
        ...['--tokenizer', fixtureModel(model), '--use-server-token-count', '--random-seed', '1'],
        ...['--artifact-dir', folder, '--ui', 'none', '--no-gpu-telemetry', '--no-server-metrics'],
      ],
      { cwd: folder },
    );
    expect(code, output).toBe(0);
    const summary: Json = JSON.parse(readFileSync(join(folder, 'profile_export_aiperf.json'), 'utf8'));
    expect(summary.request_count.avg).toBe(REQUESTS);
    expect(summary.error_request_count?.avg ?? 0).toBe(0);
    expect(summary.output_sequence_length.avg).toBe(TOKENS);
    expect(summary.time_to_first_token.avg).toBeGreaterThan(0);
    expect(summary.inter_token_latency.avg).toBeGreaterThan(0);
  });
});
