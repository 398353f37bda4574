/** The engine's loop on the device: preemption, and many endings of all kinds. */
import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EngineLoop } from '../../src/engine/loop.js';
import type { ChoiceOutput, Command, GenerationRequest } from '../../src/engine/protocol.js';
import type { ModelRunner, StepBatch } from '../../src/model/runner.js';
import { requestOf, ScriptedPort } from '../support/engine.js';
import { matchesUpToGap, readExpected } from '../support/greedy.js';
import { loadOnDevice, MODELS } from './support/models.js';
import { residentBytes } from './support/process.js';

const cases = readExpected('tiny-llama');
const LIMITS = { maxNumSeqs: 8, maxNumBatchedTokens: 64, maxModelLen: 256 };

/** The same device with fewer blocks, and with steps that fail when told to. */
class LimitedRunner implements ModelRunner {
  readonly device = 'webgpu';
  readonly mixedSteps = true;
  readonly description = '';
  readonly vocabSize: number;
  readonly blockSize: number;
  readonly kvCacheBytes: number;
  failNext = false;

  constructor(
    private readonly runner: ModelRunner,
    readonly numBlocks: number,
  ) {
    this.vocabSize = runner.vocabSize;
    this.blockSize = runner.blockSize;
    this.kvCacheBytes = runner.kvCacheBytes;
  }

  async run(batch: StepBatch) {
    const fails = this.failNext;
    this.failNext = false;
    const logits = await this.runner.run(batch);
    if (fails) throw new Error('made to fail');
    return logits;
  }

  copyBlocks(source: Int32Array, target: Int32Array) {
    return this.runner.copyBlocks(source, target);
  }

  async dispose() {}
}

let device: ModelRunner;
beforeAll(async () => {
  device = (await loadOnDevice('tiny-llama')).runner;
});
afterAll(() => device.dispose());

async function runLoop(
  runner: ModelRunner,
  script: Map<number, Command[]>,
  afterStep: (loop: EngineLoop) => void = () => {},
): Promise<{ outputs: ChoiceOutput[]; loop: EngineLoop }> {
  const port = new ScriptedPort(script, () => {
    loop.scheduler.check();
    afterStep(loop);
  });
  const loop: EngineLoop = new EngineLoop(runner, port, LIMITS);
  await loop.run();
  return { outputs: port.messages.flatMap((message) => message.outputs), loop };
}

const generate = (request: GenerationRequest): Command => ({ kind: 'generate', request });

describe.each(readdirSync(MODELS))('preemption of %s', (name) => {
  it('changes no token: sequences that lost their blocks are computed again', async () => {
    const expected = readExpected(name);
    const { runner } = await loadOnDevice(name);
    const requests = Array.from({ length: 6 }, (_, i) =>
      // Of its own salt each, so that equal prompts share no block.
      requestOf({ id: i, prompt: expected[i % 3]!.ids, maxTokens: 40, cacheSalt: String(i) }),
    );
    // Six sequences of up to 69 tokens want 3 blocks each in the end.
    const { outputs, loop } = await runLoop(new LimitedRunner(runner, 8), new Map([[0, requests.map(generate)]]));
    await runner.dispose();
    expect(loop.scheduler.preemptions).toBeGreaterThan(0);
    for (const { id } of requests) {
      const tokens = outputs.filter((output) => output.request === id).flatMap((output) => output.tokens);
      expect(tokens).toHaveLength(40);
      expect(matchesUpToGap(tokens, expected[id % 3]!, 0.05)).toBe(true);
    }
  });
});

describe('500 requests that end by end token, stop token, length, abort and error', () => {
  it('leave no block taken, and memory flat after the first 50 (case 85, transformers.js#1734)', async () => {
    const runner = new LimitedRunner(device, 60);
    const script = new Map<number, Command[]>();
    const at = (turn: number, command: Command) => script.set(turn, [...(script.get(turn) ?? []), command]);
    const failingTurns = new Set<number>();
    for (let id = 0; id < 500; id++) {
      const c = cases[id % cases.length]!;
      const turn = 3 * id;
      const ending = ['end', 'stop', 'length', 'abort', 'error'][id % 5]!;
      // The reference's 4th token ends it, as the model's own end token or as one of the request.
      const endTokens = ending === 'end' || ending === 'stop' ? [c.greedy[3]!] : [];
      at(turn, generate(requestOf({ id, prompt: c.ids, maxTokens: ending === 'length' ? 6 : 30, endTokens })));
      if (ending === 'abort') at(turn + 7, { kind: 'abort', request: id });
      if (ending === 'error') failingTurns.add(turn + 4);
    }
    let afterFifty = 0;
    let ended = 0;
    const finishes = new Map<string, number>();
    const port = new ScriptedPort(script, () => {
      loop.scheduler.check();
      if (failingTurns.has(port.turn)) runner.failNext = true;
      for (const { finish } of port.messages.splice(0).flatMap((message) => message.outputs)) {
        if (finish === undefined) continue;
        finishes.set(finish, (finishes.get(finish) ?? 0) + 1);
        if (++ended === 50) afterFifty = residentBytes();
      }
    });
    const loop: EngineLoop = new EngineLoop(runner, port, LIMITS);
    await loop.run();

    expect(ended).toBe(500);
    for (const finish of ['stop', 'length', 'abort', 'error']) expect(finishes.get(finish)).toBeGreaterThan(40);
    expect(loop.cache.availableBlocks).toBe(loop.cache.numBlocks);
    expect(residentBytes() - afterFifty).toBeLessThan(32 * 2 ** 20);
  });
});
