/**
 * Continuous batching as clients see it: a late and short request overtakes long ones, and nobody's answer depends on
 * company or on having been preempted.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { createParser } from 'eventsource-parser';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { type ChildServer, childServer, fixtureModel } from '../support/child-server.js';
import type { Json } from '../support/server.js';

// Two cores that do other work, too, may take their time.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 600_000 });

interface Request {
  readonly prompt: readonly number[];
  readonly outputs: number;
}

/** Prompts and outputs of the first requests, in tokens: both extremes, and many that outgrow a small pool together. */
const FIRST = [
  [1, 200],
  [900, 24],
  [30, 1],
  [60, 60],
  [5, 90],
  [40, 80],
  [3, 70],
  [60, 50],
  [20, 100],
  [9, 60],
  [12, 80],
  [25, 70],
  [2, 90],
  [35, 60],
] as const;

/**
 * 32 requests with prompts of 1 to 900 tokens and outputs of 1 to 200.
 * @param skew above 1 makes most of them shorter than even chances on a logarithmic scale do, below 1 longer
 * @param token gives a prompt's token at a position
 */
function mixedRequests(
  skew: number,
  random: () => number,
  token: (request: number, position: number) => number,
): Request[] {
  const length = (most: number) => Math.round(most ** (random() ** skew));
  const lengths = [...FIRST, ...Array.from({ length: 32 - FIRST.length }, () => [length(900), length(200)] as const)];
  return lengths.map(([prompt, outputs], request) => ({
    prompt: Array.from({ length: prompt }, (_, position) => token(request, position)),
    outputs,
  }));
}

/** Numbers from 0 to 1 that repeat from run to run: a linear congruential generator. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** `salt` keeps what one pass has computed from the next. */
function body({ prompt, outputs }: Request, salt: string): object {
  const sampling = { max_tokens: outputs, temperature: 0, ignore_eos: true };
  return { prompt, ...sampling, cache_salt: salt, return_token_ids: true };
}

async function wholeTokens(server: ChildServer, request: object): Promise<number[]> {
  return (await server.completion(request)).choices[0].token_ids;
}

/** The tokens of a streamed answer; `onToken` gets their number as they come. */
async function streamTokens(server: ChildServer, request: object, onToken = (_: number) => {}): Promise<number[]> {
  const response = await server.post('/v1/completions', { ...request, stream: true });
  expect(response.status).toBe(200);
  const tokens: number[] = [];
  const parser = createParser({
    onEvent: ({ data }) => {
      if (data === '[DONE]') return;
      tokens.push(...(JSON.parse(data) as Json).choices[0].token_ids);
      onToken(tokens.length);
    },
  });
  const decoder = new TextDecoder();
  for await (const bytes of response.body!) parser.feed(decoder.decode(bytes, { stream: true }));
  return tokens;
}

async function alone(server: ChildServer, requests: readonly Request[]): Promise<number[][]> {
  const answers: number[][] = [];
  for (const request of requests) answers.push(await wholeTokens(server, body(request, 'alone')));
  return answers;
}

/** All at once, every other one streamed. Also tells how many were seen to run at the same time. */
async function together(server: ChildServer, requests: readonly Request[]) {
  let pending = true;
  let most = 0;
  const watch = async (): Promise<void> => {
    for (; pending; await sleep(20)) most = Math.max(most, (await server.health()).running);
  };
  const watching = watch();
  const answers = await Promise.all(
    requests.map((request, i) => (i % 2 === 0 ? streamTokens : wholeTokens)(server, body(request, 'together'))),
  );
  pending = false;
  await watching;
  return { answers, most };
}

/** Asks for the same with a pool that cannot hold them all at once. */
async function preempted(server: ChildServer, requests: readonly Request[]): Promise<number[][]> {
  const before = (await server.health()).preemptions;
  const { answers } = await together(server, requests);
  const { preemptions, blocks_used, blocks_total } = await server.idle();
  console.log(`${preemptions - before} preemptions among ${requests.length} requests with ${blocks_total} blocks`);
  expect(preemptions).toBeGreaterThan(before);
  expect(blocks_used).toBe(0);
  return answers;
}

describe('tiny-llama', () => {
  const options = ['--model', fixtureModel('tiny-llama'), '--precision', 'fp32'];
  const random = randomNumbers(1);
  const requests = mixedRequests(0.7, random, () => 20 + Math.floor(random() * 490));
  let expected: number[][];

  describe('with room for all', () => {
    const server = childServer([...options, '--kv-cache-memory', '16MiB']);
    beforeAll(async () => {
      expected = await alone(server, requests);
    });

    it('answers 32 mixed requests as each alone (case 21, llama.cpp#7052)', async () => {
      expect(expected.map((tokens) => tokens.length)).toEqual(requests.map(({ outputs }) => outputs));
      const { answers, most } = await together(server, requests);
      expect(answers).toEqual(expected);
      expect(most).toBeGreaterThan(16);
    });

    it('answers a seeded request as alone among others without a seed (case 21, vllm#51226)', async () => {
      const shared = { temperature: 1, ignore_eos: true, max_tokens: 60, return_token_ids: true };
      const seeded = { ...shared, prompt: [50, 60, 70], seed: 5 };
      const solo = await wholeTokens(server, { ...seeded, cache_salt: 'alone' });
      const others = Array.from({ length: 15 }, (_, i) => ({
        ...shared,
        prompt: [50, 60, 70 + i],
        cache_salt: 'others',
      }));
      const both = () => streamTokens(server, { ...seeded, cache_salt: 'others' });
      const [first, ...rest] = await Promise.all([both(), ...others.map((body) => wholeTokens(server, body)), both()]);
      expect([first, rest.pop()]).toEqual([solo, solo]);
      expect(new Set(rest.map((tokens) => tokens.join())).size).toBe(15);
    });

    it('lets a short request that comes later finish before any long one', async () => {
      const ended: string[] = [];
      let progress = 0;
      let halfway = () => {};
      const reached = new Promise<void>((resolve) => {
        halfway = resolve;
      });
      const long = Array.from({ length: 8 }, async (_, i) => {
        let counted = false;
        const request = body({ prompt: [50 + i, 60, 70], outputs: 400 }, 'long');
        const tokens = await streamTokens(server, request, (count) => {
          if (counted || count < 20) return;
          counted = true;
          if (++progress === 8) halfway();
        });
        ended.push('long');
        expect(tokens).toHaveLength(400);
      });
      await reached;
      expect(ended).toEqual([]);
      const tokens = await streamTokens(server, body({ prompt: [9, 8, 7, 6], outputs: 20 }, 'short'));
      ended.push('short');
      expect(tokens).toHaveLength(20);
      await Promise.all(long);
      expect(ended[0]).toBe('short');
    });
  });

  describe('with a small pool', () => {
    const server = childServer([...options, '--kv-cache-memory', '768KiB', '--block-size', '8']);

    it('answers 32 mixed requests as each alone', async () => {
      expect(await preempted(server, requests)).toEqual(expected);
    });
  });
});

describe('the bundled model', () => {
  const { docs } = JSON.parse(
    readFileSync(new URL('../fixtures/golden/smollm2-distributions.json', import.meta.url), 'utf8'),
  ) as { docs: { ids: number[] }[] };
  const words = docs.flatMap(({ ids }) => ids);
  const requests = mixedRequests(
    4,
    randomNumbers(2),
    (request, position) => words[(request * 97 + position) % words.length]!,
  );
  let expected: number[][];
  let most: number;

  describe('with room for all', () => {
    const server = childServer(['--precision', 'fp32', '--kv-cache-memory', '256MiB']);
    beforeAll(async () => {
      ({ answers: expected, most } = await together(server, requests));
    });

    it('runs most of 32 mixed requests at the same time', () => {
      expect(most).toBeGreaterThan(16);
    });

    it('chooses for 32 mixed requests at once what each alone has as its likeliest tokens', async () => {
      for (const [i, { prompt, outputs }] of requests.entries()) {
        const tokens = expected[i]!;
        expect(tokens).toHaveLength(outputs);
        const scored = { prompt: [...prompt, ...tokens], max_tokens: 0, prompt_logprobs: 1, cache_salt: 'alone' };
        const entries: Json[] = (await server.completion(scored)).choices[0].prompt_logprobs;
        const ranks = tokens.map((token, at) => entries[prompt.length + at][token].rank);
        expect(ranks).toEqual(tokens.map(() => 1));
      }
    });

    it('answers as each alone where answers are short', async () => {
      const short = requests.map((request, i) => ({ ...request, i })).filter(({ outputs }) => outputs <= 4);
      expect(short.length).toBeGreaterThan(5);
      expect(await alone(server, short)).toEqual(short.map(({ i }) => expected[i]));
    });
  });

  describe('with a small pool', () => {
    const pool = ['--max-model-len', '936', '--kv-cache-memory', '42MiB', '--block-size', '8'];
    const server = childServer(['--precision', 'fp32', ...pool]);

    it('answers 32 mixed requests the same', async () => {
      expect(await preempted(server, requests)).toEqual(expected);
    });
  });
});
