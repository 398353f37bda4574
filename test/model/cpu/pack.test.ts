/** Models packed for this processor against what they were made from: kernels have to read back what they would have made. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import type { Precision } from '../../../src/engine/protocol.js';
import { packModel } from '../../../src/model/backends/cpu/pack.js';
import type { StepLogits } from '../../../src/model/runner.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { loadTiny, tokensOf } from '../../support/tiny-model.js';
import { widerModel } from '../../support/wider-model.js';

vi.mock(import('../../../src/model/backends/cpu/pack.js'), async (original) => {
  const actual = await original();
  return { ...actual, packModel: vi.fn(actual.packModel) };
});

const directory = temporaryDirectory();
const TOKENS = 40;

/** Logits of all tokens of a prompt, and the names of the prepared model's files. */
async function compute(model: string, precision: Precision, cache: string): Promise<[StepLogits, string[]]> {
  const runner = await loadTiny(cache, { model, precision, kvCacheMemory: 4 * 2 ** 20 });
  const logits = await runner.run({
    tokens: Int32Array.from(tokensOf(1, TOKENS)),
    cumulativeLengths: Int32Array.of(0, TOKENS),
    pastLengths: Int32Array.of(0),
    blockTables: Int32Array.of(0, 1, 2),
    maxBlocks: 3,
    logitRows: Int32Array.from({ length: TOKENS }, (_, row) => row),
  });
  await runner.dispose();
  const [prepared] = readdirSync(join(cache, 'prepared'));
  return [logits, readdirSync(join(cache, 'prepared', prepared!)).sort()];
}

it.each(['tiny-llama', 'tiny-qwen3', 'tiny-phi3'])(
  '%s gives the same bits packed and not, in every precision',
  async (name) => {
    const model = widerModel(name, join(directory, 'models'));
    for (const precision of ['fp32', 'int8', 'int4'] as const) {
      const [packed, files] = await compute(model, precision, join(directory, name, precision, 'packed'));
      // 4-bit weights cannot be packed; see `LoweringChoice`.
      expect(files).toEqual(['model.onnx', precision === 'int4' ? 'weights.bin' : 'packed.bin']);
      vi.mocked(packModel).mockImplementationOnce(() => Promise.resolve());
      const [plain, plainFiles] = await compute(model, precision, join(directory, name, precision, 'plain'));
      vi.mocked(packModel).mockReset();
      expect(plainFiles).toEqual(['model.onnx', 'weights.bin']);
      expect(packed.values.every(Number.isFinite)).toBe(true);
      expect(packed).toEqual(plain);
    }
  },
);
