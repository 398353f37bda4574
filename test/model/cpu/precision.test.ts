/** What the CPU's quantized lowerings keep of the reference. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KvCacheDtype, Precision } from '../../../src/engine/protocol.js';
import { UserError } from '../../../src/errors.js';
import { productsAreExact } from '../../../src/model/backends/cpu/processor.js';
import { loadModel } from '../../../src/model/load.js';
import type { ModelRunner } from '../../../src/model/runner.js';
import { continueGreedily, type ExpectedCase, matchesUpToGap, readExpected } from '../../support/greedy.js';

const FIXTURES = fileURLToPath(new URL('../../fixtures', import.meta.url));
const BUNDLED = fileURLToPath(new URL('../../../models/SmolLM2-135M-Instruct.Q4_1.gguf', import.meta.url));

const cache = mkdtempSync(join(tmpdir(), 'sluice-test-'));
beforeAll(() => {
  process.env['SLUICE_CACHE_DIR'] = cache;
});
afterAll(() => {
  rmSync(cache, { recursive: true });
});

async function load(model: string, precision: Precision | 'auto', kvCacheMemory: number, kvCacheDtype?: KvCacheDtype) {
  const config = {
    device: 'cpu',
    threads: 2,
    maxNumSeqs: 8,
    maxNumBatchedTokens: 512,
    maxModelLen: undefined,
  } as const;
  return loadModel({ ...config, model, precision, kvCacheMemory, kvCacheDtype, blockSize: 32 }, () => {});
}

describe.each(readdirSync(join(FIXTURES, 'models')))('%s in int8', (name) => {
  it('keeps greedy tokens wherever the gap to the second choice exceeds 0.1', async () => {
    const { runner, precision } = await load(join(FIXTURES, 'models', name), 'int8', 4 * 2 ** 20);
    expect(precision).toBe('int8');
    const cases = readExpected(name);
    const results = await continueGreedily(
      runner,
      cases.map((c) => c.ids),
      40,
      512,
    );
    results.forEach((result, i) => {
      expect(matchesUpToGap(result.tokens, cases[i]!, 0.1)).toBe(true);
    });
    await runner.dispose();
  });
});

describe('the type of the cache', () => {
  const model = join(FIXTURES, 'models', 'tiny-llama');

  it('is refused where the precision has no such cache, with those it has', async () => {
    await expect(load(model, 'int8', 2 ** 22, 'int8')).rejects.toThrow(
      '--kv-cache-dtype int8 is not available for this model in int8; use float16, float32 or auto.',
    );
    await expect(load(model, 'fp32', 2 ** 22, 'int8')).rejects.toThrow(UserError);
  });

  it('is what was asked for, and decides how many blocks fit', async () => {
    const blocks = await Promise.all(
      (['float32', 'float16'] as const).map(async (type) => {
        const { runner, kvCacheDtype } = await load(model, 'fp32', 2 ** 22, type);
        await runner.dispose();
        expect(kvCacheDtype).toBe(type);
        return runner.numBlocks;
      }),
    );
    expect(blocks[1]! / blocks[0]!).toBeCloseTo(2, 1);
  });
});

describe('the bundled model in int8', () => {
  let runner: ModelRunner;
  beforeAll(async () => {
    const loaded = await load(BUNDLED, 'auto', 64 * 2 ** 20);
    expect([loaded.precision, loaded.kvCacheDtype]).toEqual(['int8', productsAreExact() ? 'int8' : 'float16']);
    runner = loaded.runner;
  });
  afterAll(async () => {
    await runner.dispose();
  });

  it('keeps greedy answers until the first gap below 0.3', async () => {
    interface Golden {
      ids: number[];
      greedy: number[];
      gaps: number[];
    }
    const { cases } = golden<{ cases: Golden[] }>('smollm2-greedy.json');
    const results = await continueGreedily(
      runner,
      cases.map((c) => c.ids),
      48,
      512,
    );
    const kept = results.filter((result, i) => {
      const reference = { greedy: cases[i]!.greedy, greedy_gaps: cases[i]!.gaps } as ExpectedCase;
      const first = reference.greedy_gaps.findIndex((gap) => gap < 0.3);
      return result.tokens.slice(0, first).every((token, t) => token === reference.greedy[t]);
    });
    expect(kept.length).toBeGreaterThanOrEqual(7);
  });

  it('stays close to the distributions of fp32: mean KL at most 0.012, the same first choice in 93 %', async () => {
    interface Document {
      ids: number[];
      top_ids_u16: string;
      top_logprobs_f16: string;
    }
    const { docs } = golden<{ docs: Document[] }>('smollm2-distributions.json');
    let divergence = 0;
    let agreed = 0;
    let positions = 0;
    for (const { ids, top_ids_u16, top_logprobs_f16 } of docs) {
      const rows = ids.length;
      const topIds = uint16(top_ids_u16);
      const topLogprobs = Array.from(uint16(top_logprobs_f16), halfToFloat);
      const width = topIds.length / rows;
      const { values, vocabSize } = await runner.run({
        tokens: Int32Array.from(ids),
        cumulativeLengths: Int32Array.of(0, rows),
        pastLengths: Int32Array.of(0),
        blockTables: Int32Array.from({ length: Math.ceil(rows / 32) }, (_, i) => i),
        maxBlocks: Math.ceil(rows / 32),
        logitRows: Int32Array.from({ length: rows }, (_, i) => i),
      });
      for (let row = 0; row < rows; row++) {
        const logits = values.subarray(row * vocabSize, (row + 1) * vocabSize);
        const known = topIds.subarray(row * width, (row + 1) * width);
        const { kl, likeliest } = compare(logits, known, topLogprobs.slice(row * width, (row + 1) * width));
        divergence += kl;
        if (likeliest === known[0]) agreed++;
        positions++;
      }
    }
    expect(positions).toBe(8 * 192);
    expect(divergence / positions).toBeLessThanOrEqual(0.012);
    expect(agreed / positions).toBeGreaterThanOrEqual(0.93);
  });
});

/** KL divergence of the reference from the logits over its top tokens and one bucket for all others. */
function compare(logits: Float32Array, ids: Uint16Array, logprobs: readonly number[]) {
  let likeliest = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i]! > logits[likeliest]!) likeliest = i;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - logits[likeliest]!);
  const normalizer = logits[likeliest]! + Math.log(sum);
  let kl = 0;
  let restReference = 1;
  let rest = 1;
  ids.forEach((id, i) => {
    const reference = Math.exp(logprobs[i]!);
    const logprob = logits[id]! - normalizer;
    kl += reference * (logprobs[i]! - logprob);
    restReference -= reference;
    rest -= Math.exp(logprob);
  });
  if (restReference > 1e-9) kl += restReference * Math.log(restReference / Math.max(rest, 1e-9));
  return { kl, likeliest };
}

function golden<T>(file: string): T {
  return JSON.parse(readFileSync(join(FIXTURES, 'golden', file), 'utf8')) as T;
}

function uint16(base64: string): Uint16Array {
  const bytes = Buffer.from(base64, 'base64');
  return Uint16Array.from({ length: bytes.length / 2 }, (_, i) => bytes.readUInt16LE(2 * i));
}

function halfToFloat(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const magnitude = exponent === 0 ? (bits & 1023) * 2 ** -24 : (1 + (bits & 1023) / 1024) * 2 ** (exponent - 15);
  return bits >> 15 ? -magnitude : magnitude;
}
