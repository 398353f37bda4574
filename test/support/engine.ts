/** Requests and a port for running the engine's loop in the test's own thread. */
import { EngineLoop, type LoopLimits } from '../../src/engine/loop.js';
import type { EnginePort } from '../../src/engine/port.js';
import {
  type ChoiceOutput,
  type Command,
  type CommandBatch,
  type EngineStats,
  type GenerationRequest,
  GREEDY,
  PLAIN_REQUEST,
  type SamplingParams,
  type WorkerMessage,
} from '../../src/engine/protocol.js';
import type { ModelRunner } from '../../src/model/runner.js';

export { GREEDY };

type Overrides = Partial<Omit<GenerationRequest, 'prompt' | 'sampling'>> & {
  readonly prompt?: readonly number[];
  readonly sampling?: Partial<SamplingParams>;
};

/** A greedy request for 8 tokens, with what is given changed. */
export function requestOf({ prompt = [1, 2, 3], sampling = {}, ...rest }: Overrides = {}): GenerationRequest {
  return {
    ...PLAIN_REQUEST,
    id: 1,
    maxTokens: 8,
    arrival: 0,
    ...rest,
    prompt: Int32Array.from(prompt),
    sampling: { ...GREEDY, ...sampling },
  };
}

/**
 * Hands out commands by turn. A turn is one emptying of the inbox: before a step is planned, after the model ran, or when
 * the loop is idle. Ends the loop after the last command, once all requests it gave have ended.
 */
export class ScriptedPort implements EnginePort {
  readonly messages: (WorkerMessage & { kind: 'step' })[] = [];
  turn = 0;
  readonly #script: Map<number, Command[]>;
  readonly #afterStep: ((stats: EngineStats) => void) | undefined;
  readonly #open = new Map<number, number>();
  #lastTurn: number;
  #given = false;

  /** @param script commands by the turn in which they arrive */
  constructor(script: Map<number, Command[]>, afterStep?: (stats: EngineStats) => void) {
    this.#script = script;
    this.#afterStep = afterStep;
    this.#lastTurn = Math.max(0, ...script.keys());
  }

  receive(): CommandBatch | undefined {
    if (this.#given) {
      this.#given = false;
      this.turn++;
      return undefined;
    }
    this.#given = true;
    const commands = [...(this.#script.get(this.turn) ?? [])];
    for (const command of commands) {
      if (command.kind === 'generate') this.#open.set(command.request.id, command.request.choices);
    }
    if (this.turn > this.#lastTurn && this.#open.size === 0) commands.push({ kind: 'shutdown' });
    return { commands };
  }

  async wait(): Promise<void> {}

  send(message: WorkerMessage): void {
    if (message.kind !== 'step') throw new Error(`the loop sent ${message.kind}`);
    this.messages.push(message);
    for (const output of message.outputs) {
      if (output.finish === undefined) continue;
      const left = this.#open.get(output.request)! - 1;
      if (left === 0) this.#open.delete(output.request);
      else this.#open.set(output.request, left);
    }
    this.#afterStep?.(message.stats);
  }
}

/** What became of one choice. */
export interface ChoiceRecord {
  readonly outputs: ChoiceOutput[];
  readonly tokens: number[];
  readonly last: ChoiceOutput;
  /** Turns of the messages it appeared in are not kept; this is the number of its finishes. */
  readonly finishes: number;
}

/** Runs a script to its end, proving after each step that no block is lost; the records are keyed `request/choice`. */
export async function runScript(
  runner: ModelRunner,
  limits: LoopLimits,
  script: Map<number, Command[]>,
): Promise<{ records: Map<string, ChoiceRecord>; stats: EngineStats[]; loop: EngineLoop }> {
  const port: ScriptedPort = new ScriptedPort(script, () => loop.scheduler.check());
  let time = 0;
  const loop = new EngineLoop(runner, port, limits, () => ++time / 1000);
  await loop.run();
  const records = new Map<string, ChoiceRecord & { last: ChoiceOutput; finishes: number }>();
  for (const { outputs } of port.messages) {
    for (const output of outputs) {
      const key = `${output.request}/${output.choice}`;
      const record = records.get(key) ?? { outputs: [], tokens: [], last: output, finishes: 0 };
      record.outputs.push(output);
      record.tokens.push(...output.tokens);
      record.last = output;
      if (output.finish !== undefined) record.finishes++;
      records.set(key, record);
    }
  }
  return { records, stats: port.messages.map(({ stats }) => stats), loop };
}

/** Runs requests that all arrive before the first step. */
export function runRequests(runner: ModelRunner, limits: LoopLimits, requests: readonly GenerationRequest[]) {
  return runScript(runner, limits, new Map([[0, requests.map((request) => ({ kind: 'generate', request }))]]));
}
