import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readPromptFile } from '../../src/loadgen/prompt-file.js';
import { Workload, type WorkloadOptions } from '../../src/loadgen/workload.js';

const options: WorkloadOptions = {
  model: 'm',
  endpoint: 'completions',
  seed: 5,
  promptTokens: { kind: 'uniform', low: 10, high: 20 },
  outputTokens: { kind: 'uniform', low: 4, high: 8 },
  sharedPrefixTokens: 0,
  promptAs: 'ids',
  tokenIds: { low: 100, high: 199 },
  ignoreEos: false,
  continuousUsage: true,
  extraBody: {},
};

const body = (workload: Workload, phase: string, index: number) =>
  JSON.parse(workload.request(phase, index).body.toString());
const bodies = (changed: Partial<WorkloadOptions>, count = 20, phase = 'p') =>
  Array.from({ length: count }, (_, index) => body(new Workload({ ...options, ...changed }), phase, index));

describe('a synthetic workload', () => {
  it('asks for streamed completions of token ids within the range and the lengths', () => {
    for (const request of bodies({})) {
      expect(request).toMatchObject({
        model: 'm',
        stream: true,
        temperature: 0,
        stream_options: { include_usage: true, continuous_usage_stats: true },
      });
      expect(request).not.toHaveProperty('ignore_eos');
      expect(request.prompt.length).toBeGreaterThanOrEqual(10);
      expect(request.prompt.length).toBeLessThanOrEqual(20);
      expect(request.prompt.every((id: number) => id >= 100 && id <= 199)).toBe(true);
      expect([4, 5, 6, 7, 8]).toContain(request.max_tokens);
    }
  });

  it('is the same for the same seed, and differs by seed, load and request', () => {
    const prompts = (changed: Partial<WorkloadOptions>, phase?: string) =>
      bodies(changed, 20, phase).map((request) => JSON.stringify(request.prompt));
    expect(prompts({})).toEqual(prompts({}));
    expect(new Set([...prompts({}), ...prompts({}, 'q'), ...prompts({ seed: 6 })]).size).toBe(60);
  });

  it('puts a shared prefix before what is each request’s own', () => {
    const prompts: number[][] = bodies({ sharedPrefixTokens: 30 }).map((request) => request.prompt);
    expect(new Set(prompts.map((prompt) => JSON.stringify(prompt.slice(0, 30)))).size).toBe(1);
    expect(new Set(prompts.map((prompt) => JSON.stringify(prompt.slice(30, 40)))).size).toBe(20);
    expect(prompts.every((prompt) => prompt.length >= 40 && prompt.length <= 50)).toBe(true);
    const others: number[][] = bodies({ sharedPrefixTokens: 30 }, 1, 'another load').map((request) => request.prompt);
    expect(others[0]!.slice(0, 30)).toEqual(prompts[0]!.slice(0, 30));
  });

  it('sends words where ids cannot be sent', () => {
    const [chat] = bodies({ endpoint: 'chat', sharedPrefixTokens: 5 }, 1);
    expect(chat.messages).toEqual([{ role: 'user', content: expect.stringMatching(/^([a-z]+ ){14,24}[a-z]+$/) }]);
    expect(new Workload({ ...options, endpoint: 'chat' }).request('p', 0).path).toBe('/chat/completions');
    expect(bodies({ promptAs: 'words' }, 1)[0].prompt).toMatch(/^([a-z]+ ){9,19}[a-z]+$/);
  });

  it('adds what is asked for, and lets the extra body win', () => {
    const [request] = bodies({ ignoreEos: true, continuousUsage: false, extraBody: { temperature: 1, min_p: 0.1 } }, 1);
    expect(request).toMatchObject({
      ignore_eos: true,
      temperature: 1,
      min_p: 0.1,
      stream_options: { include_usage: true },
    });
    expect(request.stream_options).not.toHaveProperty('continuous_usage_stats');
  });
});

describe('a file of prompts', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'prompts-'));
  });
  afterAll(() => rm(folder, { recursive: true }));
  const write = async (text: string): Promise<string> => {
    const file = join(folder, 'prompts.jsonl');
    await writeFile(file, text);
    return file;
  };

  it('is used in turn, each line with its own max_tokens if it has one', async () => {
    const prompts = await readPromptFile(await write('"one"\n\n{"prompt":"two","max_tokens":77}\n{"prompt":[1,2]}\n'));
    const sent = bodies({ prompts }, 6);
    expect(sent.slice(0, 3).map((request) => request.prompt)).toEqual(sent.slice(3).map((request) => request.prompt));
    expect(new Set(sent.map((request) => JSON.stringify(request.prompt)))).toEqual(
      new Set(['"one"', '"two"', '[1,2]']),
    );
    expect(sent.find((request) => request.prompt === 'two').max_tokens).toBe(77);
  });

  it('sends messages as they are, and refuses to make them something else', async () => {
    const prompts = await readPromptFile(await write('{"messages":[{"role":"user","content":"hi","name":"x"}]}'));
    expect(bodies({ prompts, endpoint: 'chat' }, 1)[0].messages).toEqual([{ role: 'user', content: 'hi', name: 'x' }]);
    expect(() => bodies({ prompts }, 1)).toThrow(/--endpoint chat/);
    const ids = await readPromptFile(await write('{"prompt":[1,2]}'));
    expect(() => bodies({ prompts: ids, endpoint: 'chat' }, 1)).toThrow(/--endpoint completions/);
  });

  it.each([
    ['"a"\n{"prompt"', /line 2: not JSON/],
    ['"a"\n"b"\n{"text":"c"}', /line 3: neither/],
    ['{"messages":[]}', /line 1: neither/],
    ['\n', /holds no prompt/],
  ])('names the line at fault in %j', async (text, message) => {
    await expect(readPromptFile(await write(text))).rejects.toThrow(message);
  });

  it('says when it is missing', async () => {
    await expect(readPromptFile(join(folder, 'absent.jsonl'))).rejects.toThrow(/absent.jsonl: cannot be read/);
  });
});
