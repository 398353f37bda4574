/** What engines are asked in turn. */
import { expect, it } from 'vitest';
import { compare } from '../../bench/peers/compare.js';
import type { DriverProcess } from '../../bench/peers/process.js';
import type { RunRequest } from '../../bench/peers/protocol.js';
import { cellsOf } from '../../bench/peers/workload.js';

it('asks every engine the same, and nothing that begins like what it was asked before', async () => {
  const asked: RunRequest[][] = [[], []];
  const engines = asked.map((requests, i) => {
    const run = async (request: RunRequest) => {
      requests.push(request);
      const times = request.prompts.map(() =>
        Array.from({ length: request.newTokens }, (_, token) => 0.1 * (token + 1)),
      );
      return { tokens: times.map((of) => of.map(() => 1)), times, cpu: undefined };
    };
    return { name: `engine ${i}`, ours: i === 0, driver: { run } as unknown as DriverProcess };
  });
  await compare(engines, cellsOf({ streams: [1], promptTokens: 8, newTokens: 4 }), 2, () => {});
  expect(asked[0]).toHaveLength(4);
  expect(asked[1]).toEqual(asked[0]);
  const beginnings = asked[0]!.flatMap(({ prompts }) => prompts.map((prompt) => prompt.slice(0, 2).join()));
  expect(new Set(beginnings).size).toBe(beginnings.length);
});
