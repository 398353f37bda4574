/** Clients that drop their connection, by the hundred: nothing runs on for them, and no block stays theirs. */
import { describe, expect, it } from 'vitest';
import { childServer, fixtureModel } from '../support/child-server.js';

const model = fixtureModel('tiny-llama');
const limits = ['--max-num-seqs', '256', '--kv-cache-memory', '64MiB'];
// Prompts are computed in many steps.
const server = childServer(['--model', model, '--precision', 'fp32', ...limits, '--max-num-batched-tokens', '32']);

const short = { prompt: [5, 6, 7, 8, 9], max_tokens: 12, ignore_eos: true, temperature: 0, return_token_ids: true };

describe('clients that leave', () => {
  /** Reads a stream until it has seen `events` events, then drops the connection. Gives what it saw. */
  async function leaveAfter(events: number, index: number): Promise<string> {
    const controller = new AbortController();
    const body = { prompt: [3 + (index % 400), 4, 5], max_tokens: 900, ignore_eos: true, stream: true };
    const response = await server.post('/v1/completions', body, { signal: controller.signal });
    expect(response.status).toBe(200);
    const decoder = new TextDecoder();
    let seen = '';
    const reader = response.body!.getReader();
    while (seen.split('\n\n').length <= events) {
      const { value, done } = await reader.read();
      if (done) throw new Error(`the stream ended before its client left: ${seen}`);
      seen += decoder.decode(value, { stream: true });
    }
    controller.abort();
    return seen;
  }

  it('in the middle of 200 streams, end their sequences and free their blocks (cases 7 and 10)', async () => {
    const before = await server.completion(short);
    const seen = await Promise.all(Array.from({ length: 200 }, (_, i) => leaveAfter(1 + (i % 20), i)));
    for (const text of seen) {
      expect(text).toContain('data: ');
      expect(text).not.toContain('[DONE]');
      expect(text).not.toMatch(/"finish_reason":"/);
    }
    expect(await server.idle()).toMatchObject({ running: 0, waiting: 0, blocks_used: 0 });
    const after = await server.completion(short);
    expect(after.choices[0].token_ids).toEqual(before.choices[0].token_ids);
  });

  it('while the long prompts of others are computed, change nothing of their answers (case 8, llama.cpp#27604)', async () => {
    const others = Array.from({ length: 4 }, (_, i) => ({
      prompt: Array.from({ length: 800 }, (_, at) => 3 + ((i * 101 + at * 7) % 500)),
      ...{ max_tokens: 20, ignore_eos: true, temperature: 0, return_token_ids: true },
    }));
    const tokens = async (salt: string) =>
      (await Promise.all(others.map((body) => server.completion({ ...body, cache_salt: salt })))).map(
        ({ choices }) => choices[0].token_ids,
      );
    const undisturbed = await tokens('undisturbed');
    let computing = true;
    const disturbed = tokens('disturbed').finally(() => {
      computing = false;
    });
    let left = 0;
    for (; computing; left++) {
      // Some leave while they stream, some while their own prompt is computed or waits.
      const controller = new AbortController();
      const body = { prompt: Array(left % 2 === 0 ? 5 : 400).fill(9), max_tokens: 900, ignore_eos: true, stream: true };
      const answer = server.post('/v1/completions', { ...body, cache_salt: `${left}` }, { signal: controller.signal });
      answer.then((response) => response.body?.cancel()).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 5));
      controller.abort();
    }
    expect(left).toBeGreaterThan(10);
    expect(await disturbed).toEqual(undisturbed);
    expect(await server.idle()).toMatchObject({ running: 0, waiting: 0, blocks_used: 0 });
  });

  it('before the first token of 200 whole answers, leave nothing either', async () => {
    const body = { prompt: Array(600).fill(7), max_tokens: 400, ignore_eos: true };
    const abandoned = Array.from({ length: 200 }, async (_, i) => {
      const controller = new AbortController();
      const answer = server.post('/v1/completions', body, { signal: controller.signal });
      setTimeout(() => controller.abort(), 50 + (i % 100));
      await expect(answer).rejects.toThrow('aborted');
    });
    await Promise.all(abandoned);
    expect(await server.idle()).toMatchObject({ running: 0, waiting: 0, blocks_used: 0 });
  });
});
