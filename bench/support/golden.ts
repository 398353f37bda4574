/** The references in test/fixtures, as benchmarks need them. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fromFloat16 } from '../../src/model/float16.js';
import { fixtures } from './paths.js';

/** The likeliest tokens of the next position, at each position of a text. */
export interface Distributions {
  readonly tokens: Int32Array;
  /** Alternatives listed a position. */
  readonly width: number;
  /** [tokens.length, width] row-major, best first. */
  readonly top: Uint16Array;
  /** Their natural log probabilities, in the same order. */
  readonly logprobs: Float32Array;
  /** Mean negative log likelihood of tokens 1 to the last. */
  readonly loss: number;
}

export interface GreedyCase {
  readonly prompt: readonly number[];
  readonly greedy: readonly number[];
  /** Log probability of the likeliest token minus that of the second, at each step. */
  readonly gaps: readonly number[];
}

function readJson(...path: string[]): unknown {
  return JSON.parse(readFileSync(join(fixtures, ...path), 'utf8'));
}

function halfWords(base64: string): Uint16Array {
  const bytes = Buffer.from(base64, 'base64');
  return Uint16Array.from({ length: bytes.length / 2 }, (_, i) => bytes.readUInt16LE(2 * i));
}

export function readDistributions(): Distributions[] {
  const { docs } = readJson('golden', 'smollm2-distributions.json') as {
    docs: { ids: number[]; top_ids_u16: string; top_logprobs_f16: string; nll: string }[];
  };
  return docs.map((doc) => {
    const top = halfWords(doc.top_ids_u16);
    return {
      tokens: Int32Array.from(doc.ids),
      width: top.length / doc.ids.length,
      top,
      logprobs: fromFloat16(halfWords(doc.top_logprobs_f16)),
      loss: Number(doc.nll),
    };
  });
}

export function readGreedy(): GreedyCase[] {
  const { cases } = readJson('golden', 'smollm2-greedy.json') as {
    cases: { ids: number[]; greedy: number[]; gaps: number[] }[];
  };
  return cases.map(({ ids, greedy, gaps }) => ({ prompt: ids, greedy, gaps }));
}

/** Random models of all families: directory and cases. */
export function readTinyModels(): { name: string; directory: string; cases: GreedyCase[] }[] {
  const names = readdirSync(join(fixtures, 'models')).filter((name) => name.startsWith('tiny-'));
  return names.map((name) => {
    const { cases } = readJson('models', name, 'expected.json') as {
      cases: { ids: number[]; greedy: number[]; greedy_gaps: number[] }[];
    };
    return {
      name,
      directory: join(fixtures, 'models', name),
      cases: cases.map(({ ids, greedy, greedy_gaps }) => ({ prompt: ids, greedy, gaps: greedy_gaps })),
    };
  });
}
